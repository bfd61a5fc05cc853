//! sectors: the cost of an access pattern. A warp's 32 lanes load 1 to 16 bytes each in some pattern; memory delivers sectors of 32
//! bytes. The number of sectors that a pattern touches is computed exactly and compared with the device's counts; it determines
//! the time of a load.

probe! {
    /// What an access pattern costs: sectors of 32 bytes that a warp's load touches, counted, computed and timed.
    "sectors" in LAB, seconds: [4.0, 20.0, 60.0], files: gpu kernels
}

use plimsoll_core::stats::median_sorted;

use crate::prelude::meaning::*;

/// Lanes of a warp.
pub const LANES: usize = 32;
/// Bytes of a sector: the least that caches and memory exchange (CUDA C++ Best Practices Guide, 'Coalesced Access to Global
/// Memory').
pub const SECTOR: u32 = 32;
/// Bytes of a line.
pub const LINE: u32 = 128;
/// Bytes that a lane loads.
pub const ACCESSES: [u32; 5] = [1, 2, 4, 8, 16];

/// Loads served by the L1.
pub const FIRST: &str = "first-level cache";
/// Loads that bypass the L1, served by the L2.
pub const SECOND: &str = "second-level cache";

/// Computed sectors of a load if the cache looks up all lanes together; [`HALVES`] and [`QUARTERS`] are for lookups of half or a
/// quarter of a warp at a time.
pub const SECTORS: &str = "sectors";
/// See [`SECTORS`].
pub const HALVES: &str = "sectors by halves";
/// See [`SECTORS`].
pub const QUARTERS: &str = "sectors by quarters";
/// Computed 128-byte lines of a load.
pub const LINES: &str = "lines";
/// Sectors of a load counted by the device.
pub const COUNTED: &str = "counted sectors";

/// The candidate rules in order: lanes looked up together, and the metric of their sectors.
pub const RULES: [(usize, &str); 3] = [(32, SECTORS), (16, HALVES), (8, QUARTERS)];

/// Allowed difference of computed and counted sectors per load: accesses around the loop are known, and add less than this.
const EXACT: f64 = 0.05;

/// The elements that a warp's lanes read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Elements from one lane to the next; 0 is one element for all.
    Stride(u32),
    /// Neighbouring elements, starting this many bytes after the start of a line.
    Offset(u32),
    /// Neighbouring elements in reverse order.
    Reversed,
    /// Neighbouring elements as a table of 8 rows of 4 lanes, read by columns.
    Transposed,
    /// Neighbouring elements; lane l reads element 13 · l + 5 modulo 32.
    Shuffled,
    /// Two lanes on each element.
    Pairs,
    /// Anywhere in 4 KiB.
    Scattered,
}

impl Pattern {
    /// The patterns for loads of `access` bytes.
    #[must_use]
    pub fn for_access(access: u32) -> Vec<Self> {
        let mut all: Vec<Self> = [1, 2, 3, 4, 8, 16, 32, 0].map(Self::Stride).to_vec();
        let mut offsets = vec![access, 16, SECTOR, SECTOR + 16];
        offsets.dedup();
        all.extend(offsets.into_iter().map(Self::Offset));
        all.extend([Self::Reversed, Self::Transposed, Self::Shuffled, Self::Pairs, Self::Scattered]);
        all
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Self::Stride(0) => "one element".to_owned(),
            Self::Stride(1) => "in order".to_owned(),
            Self::Stride(stride) => format!("stride {stride}"),
            Self::Offset(bytes) => format!("offset {bytes} B"),
            Self::Reversed => "reversed".to_owned(),
            Self::Transposed => "transposed".to_owned(),
            Self::Shuffled => "shuffled".to_owned(),
            Self::Pairs => "in pairs".to_owned(),
            Self::Scattered => "scattered".to_owned(),
        }
    }

    /// The pattern of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "one element" => Self::Stride(0),
            "in order" => Self::Stride(1),
            "reversed" => Self::Reversed,
            "transposed" => Self::Transposed,
            "shuffled" => Self::Shuffled,
            "in pairs" => Self::Pairs,
            "scattered" => Self::Scattered,
            _ => match name.split_once(' ')? {
                ("stride", stride) => Self::Stride(stride.parse().ok()?),
                ("offset", bytes) => Self::Offset(bytes.strip_suffix(" B")?.parse().ok()?),
                _ => return None,
            },
        })
    }

    /// The offset from the start of a line at which each lane loads `access` bytes.
    #[must_use]
    pub fn places(self, access: u32) -> [u32; LANES] {
        std::array::from_fn(|lane| {
            let lane = lane as u32;
            let element = match self {
                Self::Stride(stride) => lane * stride,
                Self::Offset(bytes) => lane + bytes / access,
                Self::Reversed => 31 - lane,
                Self::Transposed => lane / 4 + lane % 4 * 8,
                Self::Shuffled => (13 * lane + 5) % 32,
                Self::Pairs => lane / 2,
                // A multiplicative hash; any fixed places will do.
                Self::Scattered => (lane + 1).wrapping_mul(0x9e37_79b9) >> 16,
            };
            if self == Self::Scattered { element % (4096 / access) * access } else { element * access }
        })
    }
}

impl Coordinate for Pattern {
    const UNIT: Unit = Unit::One;

    fn to_value(&self) -> Value {
        self.name().as_str().into()
    }

    fn from_value(value: &Value) -> Option<Self> {
        Self::from_name(value.text()?)
    }
}

axes! {
    /// A warp's load.
    pub struct Shape {
        /// Bytes per lane.
        access: Bytes,
        /// The pattern of the lanes.
        pattern: Pattern,
    }
}

/// Distinct pieces (sectors or lines) of `piece` bytes that lanes touch, if each loads `access` bytes and `together` lanes are
/// looked up at once. Naive: lists all pieces.
#[must_use]
pub fn touched(places: &[u32; LANES], access: u32, piece: u32, together: usize) -> u64 {
    let count = |lanes: &[u32]| {
        let mut pieces: Vec<u32> = lanes.iter().flat_map(|at| at / piece..=(at + access - 1) / piece).collect();
        pieces.sort_unstable();
        pieces.dedup();
        pieces.len() as u64
    };
    places.chunks(together.max(1)).map(count).sum()
}

/// Cycles, time and sectors of a warp's load from one cache level; an operation is a warp's load.
#[must_use]
pub fn level(case: &str) -> TypedSeries<Shape> {
    let mut metrics = vec![metrics::cycles_per_operation(), metric("time", Unit::Second, Quantity::TimePerOperation)];
    let computed = [SECTORS, HALVES, QUARTERS, LINES, COUNTED];
    metrics.extend(computed.map(|name| metric(name, Unit::One, Quantity::Extra)));
    let draw = Draw::heat("access", "pattern", "cycles");
    TypedSeries::hot(case, metrics, draw)
}

/// One measured load.
struct Load<'s> {
    access: u64,
    pattern: Pattern,
    cycles: Estimate,
    /// Computed by each of [`RULES`].
    sectors: [f64; RULES.len()],
    counted: Option<f64>,
    row: &'s Row,
}

fn loads<'s>(series: &'s [Series], case: &str) -> Vec<Load<'s>> {
    let Some(series) = series.iter().find(|series| series.spec.case == case) else { return Vec::new() };
    let value = |row: &Row, metric: &str| series.estimate(row, metric).map(|known| known.value);
    let load = |(at, row): (Shape, &'s Row)| {
        let mut sectors = [0.0; RULES.len()];
        for (sectors, (_, metric)) in sectors.iter_mut().zip(RULES) {
            *sectors = value(row, metric)?;
        }
        Some(Load {
            access: at.access.0,
            pattern: at.pattern,
            cycles: series.estimate(row, "cycles")?,
            sectors,
            counted: value(row, COUNTED),
            row,
        })
    };
    known_rows(series).filter_map(load).collect()
}

/// Loads of one width.
fn loads_of_width<'l, 's>(loads: &'l [Load<'s>], access: u32) -> impl Iterator<Item = &'l Load<'s>> {
    loads.iter().filter(move |load| load.access == u64::from(access))
}

/// The index in [`RULES`] of the rule that most counts follow, and the loads that don't; `None` without counts.
fn find_rule<'l, 's>(loads: &'l [Load<'s>], access: u32) -> Option<(usize, Vec<&'l Load<'s>>)> {
    let counted: Vec<&Load<'_>> = loads_of_width(loads, access).filter(|load| load.counted.is_some()).collect();
    let others = |rule: usize| {
        let differs = |load: &&&Load<'_>| load.counted.is_some_and(|n| (n - load.sectors[rule]).abs() > EXACT);
        counted.iter().filter(differs).copied().collect::<Vec<_>>()
    };
    if counted.is_empty() {
        return None;
    }
    (0..RULES.len()).map(|rule| (rule, others(rule))).min_by_key(|(_, others)| others.len())
}

/// One sentence for every pattern whose counted sectors match no rule; empty if all agree or nothing was counted.
#[must_use]
pub fn disagreements(series: &[Series]) -> Vec<String> {
    let mut messages = Vec::new();
    for case in [FIRST, SECOND] {
        let loads = loads(series, case);
        for (rule, others) in ACCESSES.iter().filter_map(|access| find_rule(&loads, *access)) {
            messages.extend(others.into_iter().map(|load| {
                let counted = load.counted.unwrap_or_default();
                let (sectors, lanes) = (load.sectors[rule], RULES[rule].0);
                let (pattern, access) = (load.pattern.name(), load.access);
                format!(
                    "{access} B {pattern}, {case}: {counted:.2} sectors counted, {sectors} computed by {lanes} lanes at a time"
                )
            }));
        }
    }
    messages
}

fn findings(_: &DeviceInfo, series: &[Series]) -> Vec<Finding> {
    let mut found = Vec::new();
    for case in [FIRST, SECOND] {
        let loads = loads(series, case);
        found.extend(ACCESSES.iter().filter_map(|access| lookup(&loads, case, *access)));
        found.extend(ACCESSES.iter().flat_map(|access| ordered_and_worst(&loads, case, *access)));
    }
    found.extend(Model::fit(series).map(|model| model.finding()));
    found.extend(advise(series));
    found
}

/// The number of lanes that the cache looks up together.
fn lookup(loads: &[Load<'_>], case: &str, access: u32) -> Option<Finding> {
    let (rule, others) = find_rule(loads, access)?;
    let all = loads_of_width(loads, access).filter(|load| load.counted.is_some()).count();
    let (lanes, known) = (RULES[rule].0, exactly(RULES[rule].0 as f64));
    let flags = loads_of_width(loads, access).fold(Flags::NONE, |flags, load| flags.union(load.row.flags));
    let says = match others.as_slice() {
        [] => format!("all {all} patterns count as many sectors as {lanes} lanes at a time touch"),
        [first, ..] => format!(
            "{} of {all} patterns count otherwise than by {lanes} lanes at a time, the first of them {}",
            others.len(),
            first.pattern.name()
        ),
    };
    let name = format!("lanes looked up together, {access} B, {case}");
    Some(Finding { says, ..derived(name, Unit::One, known, flags) })
}

fn exactly(value: f64) -> Estimate {
    Estimate { value, interval: Interval { lo: value, hi: value } }
}

/// The cost of lanes in order and of the most expensive pattern.
fn ordered_and_worst(loads: &[Load<'_>], case: &str, access: u32) -> Vec<Finding> {
    let Some(ordered) = loads_of_width(loads, access).find(|load| load.pattern == Pattern::Stride(1)) else {
        return Vec::new();
    };
    let worst =
        loads_of_width(loads, access).max_by(|a, b| a.cycles.value.total_cmp(&b.cycles.value)).unwrap_or(ordered);
    let says =
        format!("{}: {:.1} times lanes in order", worst.pattern.name(), worst.cycles.value / ordered.cycles.value);
    let named = |what: &str| format!("{what}, {access} B, {case}");
    vec![
        finding(named("lanes in order"), Unit::CyclePerOp, ordered.row, ordered.cycles),
        Finding { says, ..finding(named("worst pattern"), Unit::CyclePerOp, worst.row, worst.cycles) },
    ]
}

/// Cycles of a warp's load from the L2: the larger of a floor and the cycles of its sectors.
#[derive(Clone, Debug, PartialEq)]
struct Model {
    /// Cycles of the cheapest load.
    floor: f64,
    per_sector: Estimate,
    /// The largest relative error of the model, and its load.
    worst: f64,
    at: String,
    flags: Flags,
}

/// Loads of at least this many sectors are far from the floor.
const MANY: f64 = 8.0;

impl Model {
    fn fit(series: &[Series]) -> Option<Self> {
        let loads = loads(series, SECOND);
        let floor = loads.iter().map(|load| load.cycles.value).reduce(f64::min)?;
        // Wide loads take part only if counts show their rule; loads of up to 4 bytes need none.
        let known_sectors = |load: &Load<'_>| {
            let rule = find_rule(&loads, load.access as u32).map(|(rule, _)| rule);
            rule.or((load.access <= 4).then_some(0)).map(|rule| load.sectors[rule])
        };
        let known: Vec<(&Load<'_>, f64)> = loads.iter().filter_map(|load| Some((load, known_sectors(load)?))).collect();
        let many = || known.iter().filter(|(_, sectors)| *sectors >= MANY);
        let mut slopes: Vec<f64> = many().map(|(load, sectors)| load.cycles.value / sectors).collect();
        slopes.sort_by(f64::total_cmp);
        let (lo, hi) = (*slopes.first()?, *slopes.last()?);
        let value = median_sorted(&slopes);
        let off = |(load, sectors): &(&Load<'_>, f64)| load.cycles.value / (value * sectors).max(floor) - 1.0;
        let worst = known.iter().max_by(|a, b| off(a).abs().total_cmp(&off(b).abs()))?;
        Some(Self {
            floor,
            per_sector: Estimate { value, interval: Interval { lo, hi } },
            worst: off(worst),
            at: format!("{} B {}", worst.0.access, worst.0.pattern.name()),
            flags: known.iter().fold(Flags::NONE, |flags, (load, _)| flags.union(load.row.flags)),
        })
    }

    fn finding(&self) -> Finding {
        let says = format!(
            "A warp's load takes {:.2} cycles for each sector and {:.2} at least; furthest off is {}, by {:+.0} %.",
            self.per_sector.value,
            self.floor,
            self.at,
            100.0 * self.worst
        );
        let name = format!("cycles per sector, {SECOND}");
        Finding { says, ..derived(name, Unit::CyclePerOp, self.per_sector, self.flags) }
    }
}

/// The advice for this device.
fn advise(series: &[Series]) -> Option<Finding> {
    let (model, loads) = (Model::fit(series)?, loads(series, SECOND));
    let find_load = |pattern: Pattern| loads_of_width(&loads, 4).find(|load| load.pattern == pattern);
    let (ordered, offset) = (find_load(Pattern::Stride(1))?, find_load(Pattern::Offset(4))?);
    let strided = find_load(Pattern::Stride(8))?;
    let sectors = |load: &Load<'_>| load.counted.unwrap_or(load.sectors[0]).round();
    let says = format!(
        "Let a warp's lanes touch few sectors of 32 bytes: from the L2 each costs {:.2} cycles, so 4-byte loads take {:.1} cycles \
         in order ({} sectors), {:.1} offset by one element ({}) and {:.1} at stride 8 ({}).",
        model.per_sector.value,
        ordered.cycles.value,
        sectors(ordered),
        offset.cycles.value,
        sectors(offset),
        strided.cycles.value,
        sectors(strided),
    );
    Some(advice(says, Unit::CyclePerOp, model.per_sector, [ordered.row, offset.row, strided.row]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::sample::Work;
    use plimsoll_core::series::Point;
    use plimsoll_suite::findings::synthetic;

    fn sectors(pattern: Pattern, access: u32) -> u64 {
        touched(&pattern.places(access), access, SECTOR, LANES)
    }

    #[test]
    fn four_byte_loads_touch_the_published_number_of_sectors() {
        assert_eq!(sectors(Pattern::Stride(1), 4), 4);
        assert_eq!(sectors(Pattern::Offset(4), 4), 5);
        assert_eq!(sectors(Pattern::Stride(2), 4), 8);
        assert_eq!([8, 16, 32].map(|stride| sectors(Pattern::Stride(stride), 4)), [32; 3]);
    }

    #[test]
    fn reordering_touches_no_more_sectors_and_one_element_touches_one() {
        for access in ACCESSES {
            let ordered = u64::from((32 * access).div_ceil(SECTOR));
            for pattern in [Pattern::Stride(1), Pattern::Reversed, Pattern::Transposed, Pattern::Shuffled] {
                assert_eq!(sectors(pattern, access), ordered, "{pattern:?} of {access} B");
            }
            assert_eq!(sectors(Pattern::Stride(0), access), 1);
            assert_eq!(sectors(Pattern::Pairs, access), u64::from((16 * access).div_ceil(SECTOR)));
        }
    }

    #[test]
    fn rules_differ_for_wide_loads_with_offsets() {
        let count_by_rule = |pattern: Pattern| RULES.map(|(lanes, _)| touched(&pattern.places(16), 16, SECTOR, lanes));
        assert_eq!(count_by_rule(Pattern::Stride(1)), [16, 16, 16]);
        assert_eq!(count_by_rule(Pattern::Offset(16)), [17, 18, 20]);
        assert_eq!(count_by_rule(Pattern::Stride(0)), [1, 2, 4]);
        assert_eq!(touched(&Pattern::Offset(8).places(8), 8, SECTOR, 16), 10);
    }

    #[test]
    fn every_access_is_aligned_and_within_the_largest_stride() {
        for access in ACCESSES {
            for pattern in Pattern::for_access(access) {
                assert_eq!(Pattern::from_name(&pattern.name()), Some(pattern));
            }
            let mut names: Vec<String> = Pattern::for_access(access).into_iter().map(Pattern::name).collect();
            for pattern in Pattern::for_access(access) {
                let places = pattern.places(access);
                assert!(
                    places.iter().all(|at| at % access == 0 && at + access <= 32 * 32 * 16),
                    "{pattern:?} {access}"
                );
            }
            let all = names.len();
            names.sort();
            names.dedup();
            assert_eq!(names.len(), all, "{access}");
        }
    }

    /// A load of 0.5 cycles per sector and at least 2, with the sector count that `counted` returns.
    fn point(access: u32, pattern: Pattern, counted: impl Fn(&[u64; 3]) -> Option<f64>) -> Point {
        let places = pattern.places(access);
        let sectors = RULES.map(|(lanes, _)| touched(&places, access, SECTOR, lanes));
        let cycles = (0.5 * sectors[0] as f64).max(2.0);
        let mut extra: Vec<(&str, f64)> = RULES.iter().zip(sectors).map(|(rule, n)| (rule.1, n as f64)).collect();
        extra.extend(counted(&sectors).map(|counted| (COUNTED, counted)));
        let at = Shape { access: access.into(), pattern };
        let work = Work { operations: 1e6, in_kernel: true, ..Work::default() };
        synthetic::point(at.to_values(), cycles * 1e6 / synthetic::CLOCK, work, &extra)
    }

    fn measured(counted: impl Fn(&[u64; 3], u32) -> Option<f64>) -> [Series; 2] {
        let points = |access| Pattern::for_access(access).into_iter().map(move |pattern| (access, pattern));
        let points_of_all =
            || ACCESSES.into_iter().flat_map(points).map(|(access, p)| point(access, p, |n| counted(n, access)));
        [Series::new(level(FIRST), points_of_all()), Series::new(level(SECOND), points_of_all())]
    }

    #[test]
    fn rule_that_all_counts_follow_is_found() {
        let series = measured(|n, access| Some(n[if access == 16 { 2 } else { 0 }] as f64 + 0.01));
        assert!(disagreements(&series).is_empty());
        let found = findings(&DeviceInfo::default(), &series);
        let lanes = |access: u32| {
            let name = format!("lanes looked up together, {access} B, {SECOND}");
            found.iter().find(|finding| finding.name == name).unwrap().value
        };
        assert_eq!([4, 8, 16].map(lanes), [32.0, 32.0, 8.0]);
    }

    #[test]
    fn count_without_a_rule_is_reported_with_its_pattern() {
        let series = measured(|n, access| Some(if (access, n[0]) == (4, 5) { 7.0 } else { n[0] as f64 }));
        let messages = disagreements(&series);
        // Offsets by one element, by 16 and by 48 bytes touch five sectors; each level reports them.
        assert_eq!(messages.len(), 6, "{messages:?}");
        assert!(
            messages[0].contains("4 B offset 4 B") && messages[0].contains("7.00 sectors counted, 5 computed"),
            "{}",
            messages[0]
        );
    }

    #[test]
    fn model_and_advice_work_without_counters() {
        let series = measured(|_, _| None);
        assert!(disagreements(&series).is_empty());
        let found = findings(&DeviceInfo::default(), &series);
        assert!(!found.iter().any(|finding| finding.name.starts_with("lanes looked up")));
        let model = found.iter().find(|finding| finding.name.starts_with("cycles per sector")).unwrap();
        assert!((model.value - 0.5).abs() < 1e-3, "{model:?}");
        assert!(model.says.contains("2.00 at least"), "{}", model.says);
        let advice = found.iter().find(|finding| finding.name == "advice").unwrap();
        assert!(advice.says.contains("2.5 offset by one element (5) and 16.0 at stride 8 (32)"), "{}", advice.says);
        assert!(findings(&DeviceInfo::default(), &[]).is_empty());
    }
}
