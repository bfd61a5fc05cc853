//! digest: whether every SM computes the same bits. All run the same arithmetic on the same numbers, so one that gives another digest
//! computes wrongly. The kinds of arithmetic, their seed and their length never depend on the request, so digests of several devices
//! of one model can be compared as well.

probe! {
    /// Whether every multiprocessor computes the same bits: one digest for each kind of arithmetic and multiprocessor.
    "digest" in "arithmetic", seconds: [5.0, 20.0, 60.0], files: gpu kernels
}

#[cfg(feature = "gpu")]
mod oracle;

use std::collections::{BTreeMap, BTreeSet};

use crate::prelude::meaning::*;

names! {
    /// A kind of arithmetic.
    pub enum Kind {
        /// Fused multiply-adds in single precision.
        FmaF32 = "FMA f32",
        /// The same in double precision.
        FmaF64 = "FMA f64",
        /// Instructions of the special-function unit: reciprocal, root, exponential, logarithm, sine, cosine.
        Special = "special functions",
        /// 32-bit multiplications, additions, shifts and logic.
        Integer = "integer",
        /// Matrix products of bf16 that are summed in single precision.
        Matrix = "matrix bf16",
        /// Patterns in shared memory and in registers.
        Shared = "shared memory",
    }
}

axes! {
    /// One kind of arithmetic on one SM.
    pub struct Place {
        /// The kind of arithmetic.
        kind: Kind,
        /// The SM's number.
        multiprocessor: Count,
    }
}

/// The metric with the digest of an SM.
pub const DIGEST: &str = "digest";
/// The metric with the share of SMs that gave the same digest, per cent.
pub const ALIKE: &str = "alike";
/// The version of the kernels and their numbers: digests of two versions can't be compared. It is the metric of the findings.
pub const VERSION: &str = "digest 1";
/// Every time is precise enough: only the digests matter.
const PRECISION: f64 = 0.5;
/// Most SMs that a sentence names.
const MOST_NAMED: usize = 8;

/// The digest of each SM. While a point is measured, all SMs work; the time is that of such a launch.
#[must_use]
pub fn digests() -> TypedSeries<Place> {
    let [digest, alike] =
        [(DIGEST, Unit::Digest), (ALIKE, Unit::Percent)].map(|(name, unit)| metric(name, unit, Quantity::Extra));
    let metrics = vec![digest, alike, metrics::time()];
    TypedSeries::hot("digests", metrics, Draw::heat("multiprocessor", "kind", ALIKE))
        .with_precision(PRECISION)
        .with_expected(Flags::from_iter([Flag::ThrottlePower, Flag::ClockLow]))
}

/// A digest as people read it: `0x00c0ffee`.
#[must_use]
pub fn format_digest(digest: u32) -> String {
    Unit::Digest.format(f64::from(digest))
}

/// The digest that more than half of the SMs gave, and their number.
pub fn majority(digests: impl IntoIterator<Item = u32>) -> Option<(u32, usize)> {
    let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
    digests.into_iter().for_each(|digest| *counts.entry(digest).or_default() += 1);
    let all: usize = counts.values().sum();
    counts.into_iter().find(|(_, count)| 2 * count > all)
}

/// The share of SMs that gave this digest, per cent.
#[must_use]
pub fn percent_alike(digest: u32, digests: &BTreeMap<u64, u32>) -> f64 {
    let count = digests.values().filter(|other| **other == digest).count();
    100.0 * count as f64 / digests.len().max(1) as f64
}

/// What is wrong with the digest of one SM, where all of them gave `digests`, by their numbers. `None` where it is that of the majority,
/// and where the SM has none, because no block ran there.
#[must_use]
pub fn describe_difference(place: Place, digests: &BTreeMap<u64, u32>) -> Option<String> {
    let Place { kind, multiprocessor } = place;
    let own = *digests.get(&multiprocessor.0)?;
    let Some((usual, count)) = majority(digests.values().copied()) else {
        return Some(format!("{kind}: no digest has a majority of the {} multiprocessors", digests.len()));
    };
    (own != usual).then(|| {
        let [own, usual] = [own, usual].map(format_digest);
        format!(
            "{kind} on multiprocessor {}: digest {own} instead of {usual}, which {count} others gave",
            multiprocessor.0
        )
    })
}

/// The digests of each SM in all rounds, by kind.
type Votes = BTreeMap<Kind, BTreeMap<u64, BTreeSet<u32>>>;

fn findings(_: &DeviceInfo, series: &[Series]) -> Vec<Finding> {
    let mut votes = Votes::new();
    let mut wrong: BTreeSet<Kind> = BTreeSet::new();
    for series in series.iter().filter(|series| series.spec.case == "digests") {
        for (place, row) in known_rows::<Place>(series) {
            let digests = row.points.iter().filter_map(|point| to_digest(*point.extra.get(DIGEST)?));
            votes.entry(place.kind).or_default().entry(place.multiprocessor.0).or_default().extend(digests);
            if row.flags.contains(Flag::VerifyFail) {
                wrong.insert(place.kind);
            }
        }
    }
    let found = |(kind, votes): (&Kind, &BTreeMap<u64, BTreeSet<u32>>)| {
        let flags: Flags = wrong.contains(kind).then_some(Flag::VerifyFail).into_iter().collect();
        judge(*kind, votes, flags)
    };
    votes.iter().filter_map(found).collect()
}

/// 32 bits that a record holds as a number.
fn to_digest(number: f64) -> Option<u32> {
    let digest = number as u32;
    (f64::from(digest) == number).then_some(digest)
}

/// The digest of the majority, and the SMs that gave another one. An SM with several digests has no vote.
fn judge(kind: Kind, votes: &BTreeMap<u64, BTreeSet<u32>>, flags: Flags) -> Option<Finding> {
    let single = |digests: &BTreeSet<u32>| digests.first().copied().filter(|_| digests.len() == 1);
    let (usual, count) = majority(votes.values().filter_map(single))?;
    let others: Vec<String> = votes
        .iter()
        .filter(|(_, digests)| digests.iter().any(|digest| *digest != usual))
        .map(|(multiprocessor, digests)| {
            let digests: Vec<String> = digests.iter().copied().map(format_digest).collect();
            format!("{multiprocessor} ({})", digests.join(", "))
        })
        .collect();
    let measured = votes.values().filter(|digests| !digests.is_empty()).count();
    let mut says = format!("The same digest on {count} of {measured} multiprocessors.");
    if !others.is_empty() {
        let more =
            if others.len() > MOST_NAMED { format!(" and {} more", others.len() - MOST_NAMED) } else { String::new() };
        says += &format!(" WRONG on {}{more}.", others[..others.len().min(MOST_NAMED)].join(", "));
    }
    let value = f64::from(usual);
    let known = Estimate { value, interval: Interval { lo: value, hi: value } };
    let finding = derived(kind.name(), Unit::Digest, known, flags);
    Some(Finding { says, metric: VERSION.to_owned(), ..finding })
}

#[cfg(test)]
mod tests {
    use plimsoll_core::sample::Work;
    use plimsoll_core::series::Point;

    use super::*;

    fn place(kind: Kind, multiprocessor: u64) -> Place {
        Place { kind, multiprocessor: Count(multiprocessor) }
    }

    fn point(at: Place, digest: f64) -> Point {
        let extra = [(DIGEST.to_owned(), digest)].into();
        Point { extra, ..Point::new(at.to_values(), Work::default(), vec![1000; 3]) }
    }

    fn find(points: impl IntoIterator<Item = Point>) -> Vec<(String, f64, String)> {
        let found = findings(&DeviceInfo::default(), &[Series::new(digests(), points)]);
        found.into_iter().map(|finding| (finding.name, finding.value, finding.says)).collect()
    }

    #[test]
    fn the_multiprocessor_that_differs_is_named_and_the_majority_is_the_figure() {
        let even = (0..132).map(|sm| point(place(Kind::FmaF32, sm), 7.0));
        let odd = (0..132).map(|sm| point(place(Kind::Integer, sm), if sm == 17 { 1.0 } else { f64::from(u32::MAX) }));
        let found = find(even.chain(odd));
        let expected = [
            ("FMA f32", 7.0, "The same digest on 132 of 132 multiprocessors."),
            ("integer", 4_294_967_295.0, "The same digest on 131 of 132 multiprocessors. WRONG on 17 (0x00000001)."),
        ];
        assert_eq!(found, expected.map(|(name, value, says)| (name.to_owned(), value, says.to_owned())));
    }

    #[test]
    fn a_multiprocessor_that_differs_from_itself_has_no_vote() {
        let first = (0..3).map(|sm| point(place(Kind::Special, sm), 7.0));
        let second = (0..3).map(|sm| point(place(Kind::Special, sm), if sm == 0 { 8.0 } else { 7.0 }));
        let found = find(first.chain(second.map(|point| Point { round: 1, ..point })));
        let says = "The same digest on 2 of 3 multiprocessors. WRONG on 0 (0x00000007, 0x00000008).";
        assert_eq!(found, [("special functions".to_owned(), 7.0, says.to_owned())]);
    }

    #[test]
    fn without_a_majority_or_digests_nothing_is_found() {
        assert!(find((0..4).map(|sm| point(place(Kind::Shared, sm), (sm / 2) as f64))).is_empty());
        for number in [-1.0, 0.5, 4_294_967_296.0] {
            assert!(find([point(place(Kind::Shared, 0), number)]).is_empty());
        }
        assert!(findings(&DeviceInfo::default(), &[]).is_empty());
    }

    #[test]
    fn a_difference_names_kind_multiprocessor_and_both_digests() {
        let at = |sm| place(Kind::FmaF64, sm);
        let mut digests: BTreeMap<u64, u32> = (0..4).map(|sm| (sm, 0xabc)).collect();
        assert_eq!(describe_difference(at(2), &digests), None);
        digests.insert(2, 0xdef);
        let text = "FMA f64 on multiprocessor 2: digest 0x00000def instead of 0x00000abc, which 3 others gave";
        assert_eq!(describe_difference(at(2), &digests).as_deref(), Some(text));
        assert_eq!([0xabc, 0xdef, 1].map(|digest| percent_alike(digest, &digests)), [75.0, 25.0, 0.0]);
        assert_eq!((describe_difference(at(1), &digests), describe_difference(at(9), &digests)), (None, None));
        digests.insert(3, 0xdef);
        assert!(describe_difference(at(1), &digests).is_some_and(|text| text.contains("no digest has a majority")));
    }
}
