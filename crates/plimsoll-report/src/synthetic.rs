//! Synthetic runs for tests: every kind of picture, a throttled point, a fault, and names as hostile as a record can hold.

use plimsoll_core::device::{CacheInfo, DeviceInfo, Peak};
use plimsoll_core::record::{FaultRecord, Finding, Record, Run, RunHeader};
use plimsoll_core::sample::{CachePolicy, Effort, Evidence, Figure, Work};
use plimsoll_core::series::{Estimate, Point, SeriesSpec, Value};
use plimsoll_core::stats::{Interval, Rng};
use plimsoll_core::unit::Unit;
use plimsoll_core::{FaultClass, Flag, Flags, Traffic};
use plimsoll_probes::{footprint, stream, strides};
use plimsoll_suite::findings::advice;

/// A name with a formula, markup, a direction override, a terminal escape and quotes.
pub(crate) const HOSTILE: &str = "=cmd()|<script>alert(\"1\")</script>\u{202e}\x1b[31m & 'x'";

/// Collects the records of one run.
pub(crate) struct RunBuilder {
    records: Vec<Record>,
    series: u32,
    rng: Rng,
}

impl RunBuilder {
    /// A run of one device with this name.
    pub fn new(name: &str, started: &str) -> Self {
        let device = DeviceInfo {
            selector: "cpu".into(),
            id: "0".into(),
            name: name.into(),
            backend: "cpu".into(),
            driver: Some("6.1.0".into()),
            multiprocessors: 8,
            memory_total: 32 << 30,
            memory_free: 30 << 30,
            caches: vec![CacheInfo { level: "L2".into(), bytes: 2 << 20, line: 64, shared_by: 1 }],
            peaks: vec![Peak {
                metric: "bandwidth".into(),
                value: 76.8e9,
                unit: Unit::BytePerSecond,
                source: "2 channels × 8 B × 4800 MT/s".into(),
            }],
            ..DeviceInfo::default()
        };
        let header = RunHeader {
            schema: 1,
            tool: "0.1.0".into(),
            started: started.into(),
            argv: vec!["measure".into()],
            conditions: Default::default(),
            effort: Effort::Quick,
            seed: 7,
            host: [("os".to_owned(), "Linux".to_owned())].into(),
            devices: vec![device],
        };
        Self { records: vec![Record::Run(header)], series: 0, rng: Rng::new(7) }
    }

    /// Begins a series.
    pub fn series(&mut self, probe: &str, spec: impl Into<SeriesSpec>) {
        self.series += u32::from(self.records.len() > 1);
        self.records.push(Record::Series(SeriesSpec { id: self.series, probe: probe.into(), ..spec.into() }));
    }

    /// A point of `seconds` per launch with 1 % noise.
    pub fn point(&mut self, at: Vec<Value>, seconds: f64, work: Work, flags: Flags) {
        let tick = (seconds / 1e6).max(1e-12);
        let samples = (0..40).map(|_| ((seconds * (1.0 + 0.01 * self.rng.normal())) / tick) as u64).collect();
        let evidence = Evidence { clock_hz: Some(3.1e9), ..Evidence::default() };
        let (series, extra) = (self.series, Default::default());
        self.records.push(Record::Point(Point {
            series,
            tick,
            evidence,
            flags,
            extra,
            ..Point::new(at, work, samples)
        }));
    }

    /// The last record.
    pub fn last(&mut self) -> Option<&mut Record> {
        self.records.last_mut()
    }

    pub fn finding(&mut self, probe: &str, name: &str, value: f64, unit: Unit, metric: &str, flags: Flags) {
        self.records.push(Record::Finding(Finding {
            device: 0,
            probe: probe.into(),
            name: name.into(),
            value,
            interval: Interval { lo: value * 0.995, hi: value * 1.005 },
            unit,
            flags,
            metric: metric.into(),
            says: String::new(),
            published: None,
        }));
    }

    /// A probe's advice.
    pub fn advice(&mut self, probe: &str, says: &str) {
        let known = Estimate { value: 1.5, interval: Interval { lo: 1.4, hi: 1.6 } };
        let advice = advice::advice(says, Unit::One, known, []);
        self.records.push(Record::Finding(Finding { probe: probe.into(), ..advice }));
    }

    pub fn fault(&mut self, probe: &str, class: FaultClass, what: &str) {
        self.records.push(Record::Fault(FaultRecord::new(0, probe, class, what.to_owned())));
    }

    /// The finished run.
    pub fn run(mut self) -> Run {
        self.records.push(Record::End { complete: true });
        self.cut_off()
    }

    /// The run without its end record.
    pub fn cut_off(self) -> Run {
        Run::from_records(self.records).unwrap()
    }
}

pub(crate) fn bytes(read: u64, written: u64) -> Work {
    Work { traffic: Traffic::new(read, written), ..Work::default() }
}

/// A run with bars, lines and a heat map; every time is multiplied by `slower`.
pub(crate) fn run(name: &str, started: &str, slower: f64) -> Run {
    let mut builder = RunBuilder::new(name, started);
    builder.series("stream", stream::kernels());
    let throttled: Flags = [Flag::ThrottleThermal].into_iter().collect();
    for (kernel, stores, rate, flags) in [
        ("read", "ordinary", 61.2e9, Flags::NONE),
        ("copy", "ordinary", 44.0e9, Flags::NONE),
        ("copy", "non-temporal", 58.1e9, Flags::NONE),
        ("triad", "ordinary", 47.5e9, throttled),
        ("triad", "non-temporal", 59.3e9, Flags::NONE),
    ] {
        let work = bytes(1 << 30, 1 << 29);
        let seconds = slower * work.traffic.total() as f64 / rate;
        builder.point(vec![kernel.into(), stores.into()], seconds, work, flags);
    }
    builder.series("footprint", footprint::curve());
    for power in 12..=30 {
        let size = 1u64 << power;
        for (kernel, top) in [("read", 900e9), ("copy", 600e9)] {
            let rate = if power <= 15 {
                top
            } else if power <= 21 {
                top / 3.0
            } else if power <= 25 {
                top / 7.0
            } else {
                55e9
            };
            let work = bytes(size, if kernel == "copy" { size } else { 0 });
            let flags = if power == 23 { [Flag::Bimodal].into_iter().collect() } else { Flags::NONE };
            let seconds = slower * work.traffic.total() as f64 / rate;
            builder.point(vec![kernel.into(), size.into()], seconds, work, flags);
        }
    }
    builder.series("strides", strides::tableau());
    for element in [4u64, 8, 16] {
        for power in 0..=7 {
            let stride = 1u64 << power;
            let work = Work { operations: 1.0, ..bytes(element, 0) };
            let seconds = slower * (0.5 + stride as f64 / 40.0) / 3.1e9;
            builder.point(vec![element.into(), stride.into()], seconds, work, Flags::NONE);
        }
    }
    builder.finding("stream", "triad", 59.3e9 / slower, Unit::BytePerSecond, "bandwidth", Flags::NONE);
    builder.finding("stream", "read", 61.2e9 / slower, Unit::BytePerSecond, "bandwidth", throttled);
    builder.finding("footprint", "bandwidth memory", 55e9 / slower, Unit::BytePerSecond, "bandwidth", Flags::NONE);
    builder.finding("footprint", "capacity L2", 2097152.0, Unit::Byte, "", Flags::NONE);
    builder.fault("incore", FaultClass::Unavailable, "the core's clock: no cycle counter. Allow perf events");
    builder.run()
}

/// A run of the latency probe with a series of times over footprints, drawn as a line with logarithmic axes.
pub(crate) fn over_footprints(case: &str, figure: Figure, name: &str) -> RunBuilder {
    use plimsoll_core::series::{Draw, Quantity, axis, metric};
    let (axes, metrics) = (vec![axis("footprint", Unit::Byte)], vec![metric(name, Unit::Second, Quantity::Time)]);
    let draw = Draw::lines("footprint", name).log_x().log_y();
    let mut builder = RunBuilder::new("Box", "2026-01-02T03:04:05Z");
    builder.series("latency", SeriesSpec::new(case, figure, CachePolicy::Hot, axes, metrics, draw));
    builder
}

/// One series of (x, seconds).
pub(crate) fn curve(points: &[(f64, f64)]) -> Run {
    let mut builder = over_footprints("curve", Figure::Latency, "time");
    for &(x, y) in points {
        builder.point(vec![x.into()], y, Work::default(), Flags::NONE);
    }
    builder.run()
}
