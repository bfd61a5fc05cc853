//! Kernels for measuring launch cost.

use plimsoll_gen::kernel::clock;

use crate::prelude::kernels::*;

spirv_builds! {
    "crates/plimsoll-probes/src/launch", "":
    LAUNCH_SCALE = "launch_scale.spv", "launch_scale.comp", [];
}

/// The source of these kernels.
pub static SOURCE: Source = Source::new("launch", include_str!("kernel.cu"), |_| kernels())
    .with_access_rule(AccessRule::Stated)
    .with_spirv(spirv, BUILDS);

fn spirv(kernel: &KernelDesc, _: Features) -> Result<Spirv, &'static str> {
    Ok(if kernel.output == Output::None { clock::nothing() } else { Spirv::new(LAUNCH_SCALE, vec![]) })
}

const THREADS: u32 = 256;

/// How a kernel follows the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Follows {
    /// It begins when that one has ended.
    After,
    /// Its blocks are scheduled once the blocks of that one have ended, and wait until that one's results are visible.
    AtExit,
    /// The same, and it lets the next kernel's blocks start and wait immediately.
    Early,
}

impl Follows {
    /// All values.
    pub const ALL: [Self; 3] = [Self::After, Self::AtExit, Self::Early];

    /// The kernel of this kind: `entry` takes its name, whether it waits, whether it signals, and its threads.
    fn kernel(self, entry: &str, name: &str, threads: u32) -> KernelDesc {
        let (suffix, waits, signals) = match self {
            Self::After => ("", false, false),
            Self::AtExit => ("_exit", true, false),
            Self::Early => ("_dependent", true, true),
        };
        let name = format!("{name}{suffix}");
        KernelDesc {
            entry: format!("{entry}({name}, {waits}, {signals}, {threads})"),
            dependent: waits,
            ..KernelDesc::new(&SOURCE, name, threads)
        }
    }
}

/// A kernel of one block that does nothing.
#[must_use]
pub fn empty(follows: Follows) -> KernelDesc {
    KernelDesc {
        grid: Grid::Blocks(1),
        looping: true,
        access_rule: AccessRule::DoesNothing,
        ..follows.kernel("LAUNCH_EMPTY", "launch_empty", 32)
    }
}

/// out = s · in.
#[must_use]
pub fn scale(follows: Follows) -> KernelDesc {
    KernelDesc {
        parameters: takes!(out: [fill 16; Elements("n")], in: [read 16; Elements("n")], s: F32, n: U64 [Most(Covered)]),
        ..moving(follows.kernel("LAUNCH_SCALE", "launch_scale", THREADS))
    }
}

/// `scale` many times in one launch, with a grid barrier after each; with n = 0 only the barriers remain.
#[must_use]
pub fn rounds() -> KernelDesc {
    KernelDesc {
        entry: format!("LAUNCH_ROUNDS(launch_rounds, {THREADS})"),
        parameters: takes!(
            out: [fill 16; Elements("n")], in: [read 16; Elements("n")], s: F32, n: U64, rounds: U32 [Least(Is(1))],
            barrier: [update 4; Times(4, &[])],
        ),
        grid: Grid::Resident { blocks: 4 },
        looping: true,
        cooperative: true,
        ..moving(KernelDesc::new(&SOURCE, "launch_rounds", THREADS))
    }
}

/// The kernel as one that maps numbers.
fn moving(kernel: KernelDesc) -> KernelDesc {
    KernelDesc { element: Element::F32, inputs: 1, outputs: 1, vector_bytes: 16, output: Output::Map, ..kernel }
}

/// All kernels.
#[must_use]
pub fn kernels() -> Vec<KernelDesc> {
    let both = Follows::ALL.into_iter().flat_map(|follows| [empty(follows), scale(follows)]);
    both.chain([rounds()]).collect()
}
