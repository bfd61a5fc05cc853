//! The least time of a launch on a machine that is known only by its data sheet: its bytes at the peak bandwidth, or its
//! arithmetic at the peak rate, whichever takes longer. A bound, not a prediction.

use std::fmt;

use plimsoll_core::model::Cache;
use plimsoll_core::unit::Unit;

use crate::machines::{Arithmetic, Class, Machine};

/// Floating-point operations that a launch can't do without, in one type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Operations {
    /// Sums and differences.
    pub sums: u64,
    /// Products.
    pub products: u64,
    /// Fused multiply-adds.
    pub multiply_adds: u64,
}

impl Operations {
    /// Floating-point operations at the rate that peaks count: a multiply-add unit does two per cycle even if it only adds or only
    /// multiplies. A sum may be fused with a product. CPUs have adders besides their multiply-add units, so there sums are free.
    fn at_peak(self, class: Class) -> f64 {
        let sums = if class == Class::Gpu { self.sums } else { 0 };
        2.0 * (self.products.max(sums) as f64 + self.multiply_adds as f64)
    }
}

/// What launches that follow each other must do, each.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Work {
    /// Bytes read and written.
    pub bytes: u64,
    /// True if a byte may be both read and written, so that keeping it in a cache saves two transfers.
    pub updates: bool,
    /// Where the data is before a launch.
    pub cache: Cache,
    /// Operations in f32.
    pub single: Operations,
    /// Operations in f64.
    pub double: Operations,
}

/// What sets a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The bandwidth of memory.
    Memory,
    /// The rate of one kind of arithmetic.
    Arithmetic(Arithmetic),
}

impl Limit {
    /// Unit of the work and of the rate.
    #[must_use]
    pub const fn units(self) -> (&'static str, Unit) {
        match self {
            Self::Memory => ("B", Unit::BytePerSecond),
            Self::Arithmetic(_) => ("FLOP", Unit::FlopPerSecond),
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory => f.write_str("memory bandwidth"),
            Self::Arithmetic(kind) => write!(f, "{} arithmetic", kind.name()),
        }
    }
}

/// The time that one resource needs at its published peak.
#[derive(Clone, Debug, PartialEq)]
pub struct BoundPart {
    /// The resource.
    pub limit: Limit,
    /// Bytes or operations.
    pub work: f64,
    /// The peak in the unit of [`Limit::units`].
    pub rate: f64,
    /// Where the peak is from.
    pub source: String,
}

impl BoundPart {
    /// Work at the peak rate, in seconds.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.work / self.rate
    }
}

/// A lower bound of a launch's time.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    /// Every resource with a published peak that has work to do; the longest first.
    pub parts: Vec<BoundPart>,
    /// Figures without which a resource is left out.
    pub missing: Vec<&'static str>,
}

impl Bound {
    /// The least time of a launch, in seconds; `None` where no peak is known for anything that the launch does.
    #[must_use]
    pub fn seconds(&self) -> Option<f64> {
        self.parts.first().map(BoundPart::seconds)
    }

    /// The resource that sets the bound.
    #[must_use]
    pub fn limit(&self) -> Option<Limit> {
        self.parts.first().map(|part| part.limit)
    }
}

/// The least time of a launch on `machine`: max(bytes / peak bandwidth, operations / peak rate). Launches follow each other, so
/// that all bytes that caches can't keep move once per launch.
#[must_use]
pub fn bound(machine: &Machine, work: &Work) -> Bound {
    let mut bound = Bound { parts: Vec::new(), missing: Vec::new() };
    match bytes_through_memory(machine, work) {
        Some(0) if work.bytes > 0 => bound.missing.push("bandwidth of the caches that hold the data"),
        Some(bytes) => bound.add(Limit::Memory, bytes as f64, machine.peak_bandwidth(), memory_source(machine)),
        None => bound.missing.push("size of the caches"),
    }
    let arithmetic = [
        (Arithmetic::F32, work.single, "peak rate of f32 arithmetic"),
        (Arithmetic::F64, work.double, "peak rate of f64 arithmetic"),
    ];
    for (kind, operations, figure) in arithmetic {
        let operations = operations.at_peak(machine.class);
        match machine.peak(kind) {
            _ if operations == 0.0 => {}
            Some(rate) => bound.add(Limit::Arithmetic(kind), operations, rate, machine.source.to_owned()),
            None => bound.missing.push(figure),
        }
    }
    bound.parts.sort_by(|a, b| b.seconds().total_cmp(&a.seconds()));
    bound
}

impl Bound {
    fn add(&mut self, limit: Limit, work: f64, rate: f64, source: String) {
        if work > 0.0 && rate > 0.0 {
            self.parts.push(BoundPart { limit, work, rate, source });
        }
    }
}

/// The fewest bytes that each of many launches moves through memory; `None` where that depends on an unknown size of a cache.
fn bytes_through_memory(machine: &Machine, work: &Work) -> Option<u64> {
    match work.cache {
        Cache::Cold => Some(work.bytes),
        Cache::Hot => {
            let saved = machine.cached_bytes()?.saturating_mul(if work.updates { 2 } else { 1 });
            Some(work.bytes.saturating_sub(saved))
        }
    }
}

fn memory_source(machine: &Machine) -> String {
    format!("{}: {}", machine.bandwidth_formula(), machine.source)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machines::{MACHINES, machine};

    const GIB: u64 = 1 << 30;

    fn sums(bytes: u64, cache: Cache) -> Work {
        let single = Operations { sums: bytes / 8, ..Operations::default() };
        Work { bytes, updates: false, cache, single, double: Operations::default() }
    }

    #[test]
    fn bytes_at_the_peak_bandwidth_bound_a_copy_on_every_machine() {
        for machine in MACHINES {
            let bound = bound(machine, &sums(2 * GIB, Cache::Cold));
            assert_eq!(bound.limit(), Some(Limit::Memory), "{}", machine.name);
            let expected = 2.0 * GIB as f64 / machine.peak_bandwidth();
            assert!((bound.seconds().unwrap() / expected - 1.0).abs() < 1e-12, "{}", machine.name);
            assert!(bound.parts[0].source.contains(machine.source));
        }
    }

    #[test]
    fn operations_at_the_peak_rate_bound_much_arithmetic() {
        let b200 = machine("B200").unwrap();
        let single = Operations { sums: 10, products: 30 * GIB, multiply_adds: 20 * GIB };
        let work = Work { single, ..sums(2 * GIB, Cache::Cold) };
        let bound = bound(b200, &work);
        assert_eq!(bound.limit(), Some(Limit::Arithmetic(Arithmetic::F32)));
        let expected = 2.0 * 50.0 * GIB as f64 / 75e12;
        assert!((bound.seconds().unwrap() / expected - 1.0).abs() < 1e-12);
    }

    #[test]
    fn sums_on_a_cpu_may_use_its_adders() {
        let single = Operations { sums: 1000 * GIB, ..Operations::default() };
        let work = Work { single, ..sums(GIB, Cache::Cold) };
        assert_eq!(bound(machine("EPYC 9654").unwrap(), &work).limit(), Some(Limit::Memory));
        assert_eq!(bound(machine("H20").unwrap(), &work).limit(), Some(Limit::Arithmetic(Arithmetic::F32)));
    }

    #[test]
    fn hot_data_move_only_as_far_as_caches_cant_keep_them() {
        let mi300x = machine("MI300X").unwrap();
        let copy = |bytes| Work { single: Operations::default(), ..sums(bytes, Cache::Hot) };
        let large = bound(mi300x, &copy(GIB));
        assert_eq!(large.parts[0].work, (GIB - (288 << 20)) as f64);
        let updated = bound(mi300x, &Work { updates: true, ..copy(GIB) });
        assert_eq!(updated.parts[0].work, (GIB - 2 * (288 << 20)) as f64);
        let small = bound(mi300x, &copy(1 << 20));
        assert_eq!((small.seconds(), small.missing), (None, vec!["bandwidth of the caches that hold the data"]));
        let unknown = bound(machine("Apple M4").unwrap(), &copy(GIB));
        assert_eq!((unknown.seconds(), unknown.missing), (None, vec!["size of the caches"]));
    }

    #[test]
    fn missing_rate_is_named_and_memory_still_bounds() {
        let bound = bound(machine("Apple M3").unwrap(), &sums(GIB, Cache::Cold));
        assert_eq!(bound.limit(), Some(Limit::Memory));
        assert!(bound.missing.is_empty(), "{:?}", bound.missing);
        let gpu = super::bound(
            machine("L40S").unwrap(),
            &Work { double: Operations { products: 1, ..Operations::default() }, ..sums(GIB, Cache::Cold) },
        );
        assert_eq!(gpu.missing, ["peak rate of f64 arithmetic"]);
    }
}
