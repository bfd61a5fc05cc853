//! CPUID, with checks that return `None` for an unknown leaf instead of another leaf's data. Callers interpret the leaves.

/// The four registers of one CPUID leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leaf {
    /// EAX.
    pub eax: u32,
    /// EBX.
    pub ebx: u32,
    /// ECX.
    pub ecx: u32,
    /// EDX.
    pub edx: u32,
}

/// Leaf `number`, sub-leaf `sub`, or `None` if the processor has no such leaf. (For a leaf above their highest, Intel
/// processors return the data of the highest: Intel SDM vol. 2A, CPUID.)
#[cfg(target_arch = "x86_64")]
#[must_use]
pub fn leaf(number: u32, sub: u32) -> Option<Leaf> {
    let highest = raw(number & 0xC000_0000, 0).eax;
    // A range that the processor lacks returns arbitrary data; its highest leaf then lies outside the range.
    let in_range = highest & 0xC000_0000 == number & 0xC000_0000;
    (in_range && number <= highest).then(|| raw(number, sub))
}

#[cfg(target_arch = "x86_64")]
fn raw(number: u32, sub: u32) -> Leaf {
    // Safe in newer releases of Rust, unsafe in the oldest that this workspace supports.
    #[allow(unused_unsafe)]
    // SAFETY: CPUID belongs to the x86-64 baseline and touches no memory.
    let r = unsafe { core::arch::x86_64::__cpuid_count(number, sub) };
    Leaf { eax: r.eax, ebx: r.ebx, ecx: r.ecx, edx: r.edx }
}

/// No CPUID on this architecture.
#[cfg(not(target_arch = "x86_64"))]
#[must_use]
pub fn leaf(_number: u32, _sub: u32) -> Option<Leaf> {
    None
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn a_leaf_beyond_the_highest_is_absent() {
        let highest = leaf(0, 0).expect("leaf 0 always exists").eax;
        assert!(leaf(highest, 0).is_some());
        assert_eq!(leaf(highest + 1, 0), None);
        assert_eq!(leaf(0xBFFF_FFFF, 0), None);
    }
}
