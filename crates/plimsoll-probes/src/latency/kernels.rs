//! A pointer chase, and the kernel that builds its chain. [`plimsoll_gen::kernel::chain`] defines the chains.

use plimsoll_gen::kernel::chain;

use crate::prelude::kernels::*;

spirv_builds! {
    "crates/plimsoll-probes/src/latency", "":
    LATENCY_BUILD = "latency_build.spv", "latency_build.comp", [];
    LATENCY_CHASE = "latency_chase.spv", "latency_chase.comp", [];
    LATENCY_CHASE_CYCLES = "latency_chase_cycles.spv", "latency_chase.comp", ["CYCLES"];
    LATENCY_CHASE_TIMER = "latency_chase_timer.spv", "latency_chase.comp", ["CYCLES", "TIMER"];
}

/// The source of these kernels.
pub static SOURCE: Source = Source::new("latency", include_str!("kernel.cu"), |_| kernels()).with_spirv(spirv, BUILDS);

fn spirv(kernel: &KernelDesc, features: Features) -> Result<Spirv, &'static str> {
    let chases = [LATENCY_CHASE, LATENCY_CHASE_CYCLES, LATENCY_CHASE_TIMER];
    Ok(match kernel.name.as_str() {
        "latency_build" => Spirv::new(LATENCY_BUILD, vec![]),
        "latency_chase" => Spirv::clocked(chases, vec![(1, 0)], features),
        _ => Spirv::clocked(chases, vec![(1, 1)], features),
    })
}

/// The nearest cache that a chase uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nearest {
    /// L1: no cache is bypassed.
    L1,
    /// L2: L1 is bypassed.
    L2,
}

/// Builds a chain. n counts its elements.
#[must_use]
pub fn build() -> KernelDesc {
    KernelDesc {
        entry: "LATENCY_BUILD(latency_build)".to_owned(),
        parameters: takes!(
            base: [write 8; Times(128, &["pages", "pitch"])], pages: U32 [Least(Is(1))], visits: U32 [Least(Is(1))],
            pitch: U32 [Least(Of("visits"))], seed: U32, n: U64,
        ),
        grid: Grid::Least { waves: 2 },
        looping: true,
        ..KernelDesc::new(&SOURCE, "latency_build", 256)
    }
}

/// Follows a chain, in one thread.
#[must_use]
pub fn chase(nearest: Nearest) -> KernelDesc {
    let (name, in_source) = match nearest {
        Nearest::L1 => ("latency_chase", "NEAREST_L1"),
        Nearest::L2 => ("latency_chase_past_l1", "NEAREST_L2"),
    };
    KernelDesc {
        entry: format!("LATENCY_CHASE({name}, {in_source})"),
        parameters: takes!(
            out: [fill 8; Times(32, &[])], cursor: [update 8; Times(8, &[])],
            warm: U64 [Multiple(Is(chain::HOPS))], hops: U64 [Multiple(Is(chain::HOPS))],
        ),
        vector_bytes: 8,
        grid: Grid::Blocks(1),
        access_rule: AccessRule::Chain,
        looping: true,
        ..KernelDesc::new(&SOURCE, name, 32)
    }
}

/// All kernels.
#[must_use]
pub fn kernels() -> Vec<KernelDesc> {
    vec![build(), chase(Nearest::L1), chase(Nearest::L2)]
}
