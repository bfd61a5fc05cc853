//! digest on a GPU: all SMs repeat the same work; each point reads the digest of one of them. `crate::digest` explains the figures,
//! `kernel.cu` has the kernels, `oracle` what the host computes.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::time::Instant;

use plimsoll_core::forward_workload;
use plimsoll_core::sample::Workload;

use super::kernels::{self, SEEN_BYTES, kinds};
use super::oracle;
use crate::digest::{ALIKE, DIGEST, Kind, Place, describe_difference, digests, format_digest, majority, percent_alike};
use crate::prelude::gpu::*;
use crate::prelude::meaning::known_rows;

/// Where the numbers of every thread begin: the same on every device, whatever the request says.
const SEED: u32 = 0x706c_696d;
/// Loop iterations of a repetition: the digest depends on it.
const ITERATIONS: u32 = 16;
/// Length of a launch, seconds: a point has some thirty of them, and there are hundreds of points.
const LAUNCH_SECONDS: f64 = 100e-6;
/// Most repetitions of a launch, which begin anew each time, and those of the launch from which their number is chosen.
const MOST_REPEATS: u32 = 64;
const TRIAL_REPEATS: u32 = 4;
/// Most SMs that are reported for each kind because their own digests differ.
const MOST_REPORTED: usize = 8;

impl<G: Gpu> Run<G> for super::GpuRunner {
    const NEEDS: &'static [Need] = &[Need::Code(&kernels::SOURCE)];

    fn points(&self, device: &G::Device, _: &Request) -> usize {
        let multiprocessors = G::machine(device).map_or(1, |machine| machine.multiprocessors);
        kinds(G::target(device)).count() * multiprocessors as usize
    }

    fn run(&self, session: &mut Session<'_, G>) -> Result<(), Fault> {
        let bench = Rc::new(Bench::<G>::new(session.device)?);
        let mut points: Vec<(Place, u32)> = Vec::new();
        for kind in bench.kinds.clone() {
            if let Some(wrong) = bench.compare_with_host(kind)? {
                session.report_mismatch(wrong)?;
            }
            let repeats = bench.choose_repeats(kind)?;
            points.extend((0..bench.slots).map(|number| (Place { kind, multiprocessor: number.into() }, repeats)));
        }
        bench.reset()?;
        let sweep = Sweep { series: digests(), points: &points, share: 1.0, flags: Flags::NONE };
        let load = |(place, repeats): &(Place, u32)| Attributed::new(&bench, place.clone(), *repeats);
        let swept = session.sweep(sweep, |(place, _)| place.clone(), |_, point| load(point)).map(drop);
        if swept.as_ref().is_err_and(Fault::ends_the_device) {
            return swept;
        }
        // An SM may have changed its digest after its own points were measured, and its points may not have been measured.
        for kind in bench.kinds.clone() {
            let table = bench.read(kind)?;
            let unmeasured = table.describe_differences(kind, session.series());
            for what in table.describe_changes(kind).into_iter().chain(unmeasured) {
                session.report_mismatch(what)?;
            }
        }
        swept
    }

    fn verify(&self, device: &mut G::Device, depth: Depth, report: &mut dyn FnMut(Case)) -> Result<(), Fault> {
        let bench = Bench::<G>::new(device)?;
        let iterations: &[u32] = match depth {
            Depth::Small => &[0, 1, 3],
            Depth::Usual => &[0, 1, 2, 3, ITERATIONS],
            Depth::Exhaustive => &[0, 1, 2, 3, 4, 5, 7, 8, 9, ITERATIONS, 33],
        };
        for kind in bench.kinds.clone() {
            for (&iterations, seed) in
                iterations.iter().flat_map(|iterations| [0, SEED, u32::MAX].map(|seed| (iterations, seed)))
            {
                let wrong = bench.check(kind, (seed, iterations))?;
                report(Case {
                    kernel: kernels::kernel(kind).name,
                    on: format!("{iterations} iterations, seed {seed}"),
                    wrong,
                });
            }
            let wrong = bench.check_finds(kind)?;
            report(Case { kernel: kernels::kernel(kind).name, on: "a wrong digest".to_owned(), wrong });
        }
        Ok(())
    }
}

/// State shared by all points.
struct Bench<G: Gpu> {
    kit: Kit<G>,
    kinds: Vec<Kind>,
    /// A table for each kind of arithmetic, one entry per SM.
    seen: G::Buffer,
    slots: u32,
}

impl<G: Gpu> Bench<G> {
    fn new(device: &G::Device) -> Result<Self, Fault> {
        let kinds: Vec<Kind> = kinds(G::target(device)).collect();
        let kernels: Vec<KernelDesc> = kinds.iter().copied().map(kernels::kernel).collect();
        let kit = Kit::<G>::new(device, &kernels::SOURCE, &kernels, TRUST)?;
        let slots = kit.unit.machine().multiprocessors;
        let seen = kit.array(Kind::ALL.len() as u64 * SEEN_BYTES * u64::from(slots))?;
        Ok(Self { kit, kinds, seen, slots })
    }

    fn reset(&self) -> Result<(), Fault> {
        self.kit.checker.fill_words(self.seen.whole(), 0)
    }

    fn table(&self, kind: Kind) -> Result<Span, Fault> {
        let bytes = SEEN_BYTES * u64::from(self.slots);
        self.seen.part(kind as u64 * bytes, bytes)
    }

    fn launch(&self, kind: Kind, (seed, iterations): (u32, u32), repeats: u32) -> Result<G::Launch, Fault> {
        let arguments = Arguments::new().span(self.table(kind)?).u32(self.slots).u32(seed).u32(iterations).u32(repeats);
        self.kit.unit.launch(&kernels::kernel(kind), 0, arguments)
    }

    fn read(&self, kind: Kind) -> Result<Table, Fault> {
        Ok(Table::from_bytes(&self.kit.download(self.table(kind)?)?))
    }

    /// What is wrong with the digest of most SMs by the host's arithmetic.
    fn compare_with_host(&self, kind: Kind) -> Result<Option<String>, Fault> {
        let Some(expected) = oracle::digest(kind, SEED, ITERATIONS) else { return Ok(None) };
        self.reset()?;
        self.kit.run_once(&self.launch(kind, (SEED, ITERATIONS), 1)?)?;
        let wrong = majority(self.read(kind)?.digests().into_values()).filter(|(digest, _)| *digest != expected);
        Ok(wrong.map(|(digest, count)| {
            let [digest, expected] = [digest, expected].map(format_digest);
            format!("{kind}: {count} multiprocessors gave the digest {digest}, the host computes {expected}")
        }))
    }

    /// Repetitions that make a launch about [`LAUNCH_SECONDS`] long. The time of the host's calls makes them fewer.
    fn choose_repeats(&self, kind: Kind) -> Result<u32, Fault> {
        self.read(kind)?;
        let start = Instant::now();
        self.kit.run_once(&self.launch(kind, (SEED, ITERATIONS), TRIAL_REPEATS)?)?;
        self.read(kind)?;
        let each = start.elapsed().as_secs_f64() / f64::from(TRIAL_REPEATS);
        Ok(((LAUNCH_SECONDS / each) as u32).clamp(1, MOST_REPEATS))
    }

    /// What is wrong after two launches on all SMs; empty if nothing is.
    fn check(&self, kind: Kind, input: (u32, u32)) -> Result<String, Fault> {
        self.reset()?;
        for repeats in [1, 3] {
            self.kit.run_once(&self.launch(kind, input, repeats)?)?;
        }
        let table = self.read(kind)?;
        let digests = table.digests();
        if digests.len() < self.slots as usize {
            return Ok(format!("only {} of {} multiprocessors ran", digests.len(), self.slots));
        }
        let place = |multiprocessor: &u64| Place { kind, multiprocessor: (*multiprocessor).into() };
        let differs = digests.keys().find_map(|multiprocessor| describe_difference(place(multiprocessor), &digests));
        if let Some(wrong) = differs.or_else(|| table.describe_changes(kind).into_iter().next()) {
            return Ok(wrong);
        }
        let expected = oracle::digest(kind, input.0, input.1);
        let wrong = expected.zip(digests.values().next()).filter(|(expected, digest)| expected != *digest);
        Ok(wrong.map_or_else(String::new, |(expected, digest)| {
            format!("digest {} instead of {}", format_digest(*digest), format_digest(expected))
        }))
    }

    /// Checks that a digest that differs from the one before is counted; empty if it is.
    fn check_finds(&self, kind: Kind) -> Result<String, Fault> {
        self.reset()?;
        let first = [1_u32, 1, 0, 0].map(u32::to_le_bytes).concat();
        G::upload(self.kit.stream(), self.table(kind)?.part(0, SEEN_BYTES)?, &first)?;
        self.kit.run_once(&self.launch(kind, (SEED, 1), 2)?)?;
        let Seen { digest, blocks, others, other } = self.read(kind)?.0[0];
        let is_counted = digest == 1 && others > 0 && others + 1 == blocks && other > 1;
        Ok(if is_counted { String::new() } else { format!("{others} of {blocks} blocks were counted as different") })
    }
}

/// What is known of an SM, as in `kernel.cu`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Seen {
    digest: u32,
    blocks: u32,
    others: u32,
    other: u32,
}

/// What is known of every SM for one kind of arithmetic.
struct Table(Vec<Seen>);

impl Table {
    fn from_bytes(bytes: &[u8]) -> Self {
        let entry = |bytes: &[u8]| {
            let word = |place: usize| u32::from_le_bytes(std::array::from_fn(|byte| bytes[4 * place + byte]));
            Seen { digest: word(0), blocks: word(1), others: word(2), other: word(3) }
        };
        Self(bytes.chunks_exact(SEEN_BYTES as usize).map(entry).collect())
    }

    /// The first digest of each SM that ran a block.
    fn digests(&self) -> BTreeMap<u64, u32> {
        (0..).zip(&self.0).filter(|(_, seen)| seen.digest != 0).map(|(number, seen)| (number, seen.digest)).collect()
    }

    /// The SMs whose digests differ from that of the majority and have no point in `series`.
    fn describe_differences(&self, kind: Kind, series: &[Series]) -> Vec<String> {
        let digests = self.digests();
        let measured: Vec<Place> = series.iter().flat_map(known_rows::<Place>).map(|(place, _)| place).collect();
        let places = digests.keys().map(|number| Place { kind, multiprocessor: (*number).into() });
        let differing = places.filter_map(|place| Some((place.clone(), describe_difference(place, &digests)?)));
        differing.filter(|(place, _)| !measured.contains(place)).map(|(_, what)| what).take(MOST_REPORTED).collect()
    }

    /// The SMs whose blocks gave several digests.
    fn describe_changes(&self, kind: Kind) -> Vec<String> {
        let changed = (0_u32..).zip(&self.0).filter(|(_, seen)| seen.others > 0);
        let describe = |(number, seen): (u32, &Seen)| {
            let Seen { digest, blocks, others, other } = *seen;
            let [digest, other] = [digest, other].map(format_digest);
            format!(
                "{kind} on multiprocessor {number}: digest {digest} first, another in {others} of {blocks} blocks, last {other}"
            )
        };
        changed.take(MOST_REPORTED).map(describe).collect()
    }
}

/// Launches on all SMs; the digest of one SM is the figure.
struct Attributed<G: Gpu> {
    load: Load<G>,
    bench: Rc<Bench<G>>,
    place: Place,
    /// Its digest, and how many per cent of the SMs gave it.
    found: Cell<Option<(u32, f64)>>,
}

impl<G: Gpu> Attributed<G> {
    fn new(bench: &Rc<Bench<G>>, place: Place, repeats: u32) -> Result<Self, Fault> {
        let launch = bench.launch(place.kind, (SEED, ITERATIONS), repeats)?;
        let load = bench.kit.load(Shape::Stream, vec![launch], Work::default())?.limit_launches(1);
        Ok(Self { load, bench: Rc::clone(bench), place, found: Cell::new(None) })
    }
}

impl<G: Gpu> Workload for Attributed<G> {
    forward_workload!(load: work, batch, prepare, sample, unjudged, prepare_count, launch_once);

    fn check(&mut self) -> Result<Check, Fault> {
        let digests = self.bench.read(self.place.kind)?.digests();
        let own = digests.get(&self.place.multiprocessor.0);
        self.found.set(own.map(|digest| (*digest, percent_alike(*digest, &digests))));
        if digests.is_empty() {
            return Ok(Check::Failed(format!("{}: no block ran", self.place.kind)));
        }
        Ok(describe_difference(self.place.clone(), &digests).map_or(Check::Passed, Check::Failed))
    }

    fn extra(&self, out: &mut BTreeMap<String, f64>) {
        self.load.extra(out);
        if let Some((digest, alike)) = self.found.get() {
            out.extend([(DIGEST.to_owned(), f64::from(digest)), (ALIKE.to_owned(), alike)]);
        }
    }
}
