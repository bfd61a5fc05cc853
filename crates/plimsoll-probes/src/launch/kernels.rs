//! Kernels whose start is what is measured.

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
    /// Its blocks are in place when those of that one have ended, and wait until its results are seen.
    AtExit,
    /// The same, and it lets the next one's blocks begin to wait at once.
    Early,
}

impl Follows {
    /// Every way.
    pub const ALL: [Self; 3] = [Self::After, Self::AtExit, Self::Early];

    /// The kernel's name, and what its text says: whether it waits, and whether it signals.
    fn of(self, name: &str) -> (String, String) {
        let (suffix, waits, signals) = match self {
            Self::After => ("", false, false),
            Self::AtExit => ("_exit", true, false),
            Self::Early => ("_dependent", true, true),
        };
        let name = format!("{name}{suffix}");
        let arguments = format!("{name}, {waits}, {signals}");
        (name, arguments)
    }
}

/// A kernel of one block that does nothing.
#[must_use]
pub fn empty(follows: Follows) -> KernelDesc {
    let (name, arguments) = follows.of("launch_empty");
    let entry = format!("LAUNCH_EMPTY({arguments}, 32)");
    let dependent = follows != Follows::After;
    KernelDesc {
        entry,
        grid: Grid::Blocks(1),
        looping: true,
        dependent,
        access_rule: AccessRule::DoesNothing,
        ..KernelDesc::new(&SOURCE, name, 32)
    }
}

/// out = s · in.
#[must_use]
pub fn scale(follows: Follows) -> KernelDesc {
    let (name, arguments) = follows.of("launch_scale");
    let entry = format!("LAUNCH_SCALE({arguments}, {THREADS})");
    let dependent = follows != Follows::After;
    KernelDesc {
        entry,
        dependent,
        parameters: takes!(out: [fill 16; Elements("n")], in: [read 16; Elements("n")], s: F32, n: U64 [Most(Covered)]),
        ..moving(name)
    }
}

/// `scale` many times in one launch, with a barrier of the grid after each; n = 0 leaves the barriers alone.
#[must_use]
pub fn rounds() -> KernelDesc {
    let name = "launch_rounds".to_owned();
    KernelDesc {
        entry: format!("LAUNCH_ROUNDS({name}, {THREADS})"),
        parameters: takes!(
            out: [fill 16; Elements("n")], in: [read 16; Elements("n")], s: F32, n: U64, rounds: U32 [Least(Is(1))],
            barrier: [update 4; Times(4, &[])],
        ),
        grid: Grid::Resident { blocks: 4 },
        looping: true,
        cooperative: true,
        ..moving(name)
    }
}

fn moving(name: String) -> KernelDesc {
    KernelDesc {
        element: Element::F32,
        inputs: 1,
        outputs: 1,
        vector_bytes: 16,
        output: Output::Map,
        ..KernelDesc::new(&SOURCE, name, THREADS)
    }
}

/// All kernels.
#[must_use]
pub fn kernels() -> Vec<KernelDesc> {
    let both = Follows::ALL.into_iter().flat_map(|follows| [empty(follows), scale(follows)]);
    both.chain([rounds()]).collect()
}
