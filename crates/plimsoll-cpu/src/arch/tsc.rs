//! The processor's time counter: one raw, serialised read of it, and its stated properties. [`crate::timer`] decides whether
//! it can serve as a clock, and measures the length of a tick.

/// Reads the time-stamp counter after all earlier instructions have completed and before any later one starts.
///
/// `lfence; rdtsc; lfence`: the first fence waits for the timed region's instructions before the read at its end; the second
/// keeps the region from starting before the read at its start (Intel SDM vol. 2B, RDTSC). `rdtscp; lfence` orders no better
/// and some processors lack it, so both ends of a region use this form. Stores may still be in the store buffer.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
#[must_use]
pub fn ticks() -> u64 {
    use core::arch::x86_64::{_mm_lfence, _rdtsc};
    // SAFETY: LFENCE (SSE2) and RDTSC belong to the x86-64 baseline; neither touches memory.
    unsafe {
        _mm_lfence();
        let ticks = _rdtsc();
        _mm_lfence();
        ticks
    }
}

/// Reads the virtual counter `CNTVCT_EL0` after all earlier instructions have completed and before any later one
/// starts (`isb` on both sides, Arm ARM D12.1.2).
#[cfg(target_arch = "aarch64")]
#[inline(always)]
#[must_use]
pub fn ticks() -> u64 {
    let ticks: u64;
    // SAFETY: CNTVCT_EL0 is readable at EL0 on every operating system that Rust's std supports on AArch64 (it is how
    // they read their own clocks); the instructions touch neither memory nor the stack.
    unsafe {
        core::arch::asm!("isb", "mrs {t}, cntvct_el0", "isb", t = out(reg) ticks, options(nostack, preserves_flags));
    }
    ticks
}

/// Always zero: this crate reads no counter on this architecture, and [`crate::timer`] never uses it there.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[must_use]
pub fn ticks() -> u64 {
    0
}

/// The counter's frequency in hertz, if the architecture states it: CPUID leaf 15H on x86-64 (Intel SDM vol. 3B,
/// 20.7.3: crystal × EBX / EAX), `CNTFRQ_EL0` on AArch64. A virtual machine may report its host's figure, so this
/// only cross-checks a measured one.
#[must_use]
pub fn stated_hz() -> Option<f64> {
    #[cfg(target_arch = "x86_64")]
    {
        let leaf = super::cpuid::leaf(0x15, 0)?;
        let stated = leaf.eax != 0 && leaf.ebx != 0 && leaf.ecx != 0;
        stated.then(|| f64::from(leaf.ecx) * f64::from(leaf.ebx) / f64::from(leaf.eax))
    }
    #[cfg(target_arch = "aarch64")]
    {
        let hz: u64;
        // SAFETY: CNTFRQ_EL0 is readable at EL0 wherever CNTVCT_EL0 is; no memory or stack is touched.
        unsafe {
            core::arch::asm!("mrs {f}, cntfrq_el0", f = out(reg) hz, options(nomem, nostack, preserves_flags));
        }
        (hz != 0).then_some(hz as f64)
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    None
}

/// True if the architecture has a counter that [`ticks`] reads.
#[must_use]
pub const fn is_available() -> bool {
    cfg!(any(target_arch = "x86_64", target_arch = "aarch64"))
}

/// True if the counter runs at one rate in every power state: CPUID 8000_0007H EDX bit 8 on x86-64 ('invariant
/// TSC'), always on AArch64 (the generic timer is a system counter).
#[must_use]
pub fn is_invariant() -> bool {
    #[cfg(target_arch = "x86_64")]
    return super::cpuid::leaf(0x8000_0007, 0).is_some_and(|leaf| leaf.edx & (1 << 8) != 0);
    #[cfg(not(target_arch = "x86_64"))]
    return cfg!(target_arch = "aarch64");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counter_never_runs_backwards_on_one_thread() {
        let mut last = ticks();
        for _ in 0..10_000 {
            let now = ticks();
            assert!(now >= last);
            last = now;
        }
    }

    #[test]
    fn the_stated_frequency_is_plausible() {
        if let Some(hz) = stated_hz() {
            assert!((1e6..1e11).contains(&hz), "{hz}");
        }
    }
}
