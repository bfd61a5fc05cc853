//! l2-reuse on a GPU: a producer and a consumer of one tile in a stream, in a graph and in one cooperative launch, and of many
//! tiles one after the other. `crate::lab::l2_reuse` defines the figures; `kernel.cu` has the kernels.

use super::kernels::{self, word};
use super::{Form, Tile};
use crate::lab::l2_reuse;
use crate::prelude::gpu::*;
use crate::{TRUST, folds};

/// The smallest and the largest tile, bytes.
const TILES: (u64, u64) = (1 << 20, 128 << 20);
/// Tiles per octave: `quick` and otherwise.
const PER_OCTAVE: [u32; 2] = [1, 3];
/// Size of the array without tiles as a multiple of the L2: nothing of it is still cached when the consumer runs.
const APART_SHARE: u64 = 8;
/// Rounds of a cooperative launch.
const ROUNDS: u32 = 8;
/// Bytes after a tile that must stay unchanged.
const GUARD: u64 = 256;

/// A form and a tile.
type Point = (Form, u64);

impl<G: Gpu> Run<G> for super::GpuRunner {
    const NEEDS: &'static [Need] = &[Need::Code(&kernels::SOURCE), Need::Graphs, Need::Cooperative];

    fn points(&self, _: &G::Device, request: &Request) -> usize {
        tiles(PER_OCTAVE[usize::from(request.effort != Effort::Quick)], TILES.1).len() * Form::ALL.len()
    }

    fn run(&self, session: &mut Session<'_, G>) -> Result<(), Fault> {
        let effort = session.request.effort;
        let cache = session.info().last_level_cache().max(1 << 20);
        let usual = (APART_SHARE * cache).max(2 * TILES.1);
        let (bytes, flags) = fit_arrays::<G>(session.device, 1, requested_bytes(session, usual)?)?;
        if bytes < 4 * cache {
            let why = format!("{bytes} bytes don't exceed the L2 by enough; use {} or more", 4 * cache);
            return Err(Fault::Invalid(why));
        }
        let bench = Rc::new(Bench::<G>::new(session.device, bytes)?);
        let tiles = tiles(PER_OCTAVE[usize::from(effort != Effort::Quick)], TILES.1.min(bytes / 2));
        let points: Vec<Point> = tiles.iter().flat_map(|tile| Form::ALL.map(|form| (form, *tile))).collect();
        let coordinates = |(form, tile): &Point| Tile { form: *form, tile: (*tile).into() };
        let sweep = Sweep { series: l2_reuse::tiles(), points: &points, share: 1.0, flags };
        session.sweep(sweep, coordinates, |_, (form, tile)| bench.load(*form, *tile))?;
        Ok(())
    }

    fn verify(&self, device: &mut G::Device, depth: Depth, report: &mut dyn FnMut(Case)) -> Result<(), Fault> {
        let bench = Bench::<G>::new(device, 4 << 20)?;
        let sizes: &[u64] = match depth {
            Depth::Small => &[1, 1025],
            _ => &[1, 31, 511, 513, 1025, 65_537],
        };
        let mut report_case = |kernel: KernelDesc, on: String, check| report(Case::new(kernel.name, on, check));
        for &n in sizes {
            let tile = bench.array.part(0, 16 * n)?;
            let on = format!("{n} vectors");
            let pair = [bench.step(&kernels::producer(), tile)?, bench.step(&kernels::consumer(), tile)?];
            let (first, then) = (|w: u64| w as u32 + 1, |w: u64| 3 * w as u32 + 7);
            report_case(kernels::producer(), on.clone(), bench.check_launches(tile, &pair[..1], first)?);
            report_case(kernels::consumer(), on.clone(), bench.check_launches(tile, &pair[1..], then)?);
            let both = bench.both(tile, 3)?;
            report_case(
                kernels::both(),
                format!("{on}, 3 rounds"),
                bench.check_launches(tile, &[both], |w| word(w, 3))?,
            );
            G::fill(bench.kit.stream(), bench.array.part(16 * (n - 1), 4)?, 0xff)?;
            let found = bench.wrong(tile, 3)?;
            let right = if found == 1 { Check::Passed } else { Check::Failed(format!("{found} wrong, not 1")) };
            report_case(kernels::wrong(), on, right);
        }
        Ok(())
    }
}

/// Tiles of whole vectors up to `most`, `per_octave` per octave.
fn tiles(per_octave: u32, most: u64) -> Vec<u64> {
    let octaves = (TILES.1 / TILES.0).ilog2();
    let size = |step: u32| (TILES.0 as f64 * 2.0_f64.powf(f64::from(step) / f64::from(per_octave))) as u64;
    let sizes = (0..=octaves * per_octave).map(|step| size(step).next_multiple_of(4096));
    sizes.filter(|size| *size <= most).collect()
}

/// State shared by all points.
struct Bench<G: Gpu> {
    kit: Kit<G>,
    array: G::Buffer,
    result: G::Buffer,
    barrier: G::Buffer,
}

impl<G: Gpu> Bench<G> {
    fn new(device: &G::Device, bytes: u64) -> Result<Self, Fault> {
        let kit = Kit::<G>::new(device, &kernels::SOURCE, &kernels::kernels(), TRUST)?;
        let (array, result, barrier) = (kit.array(bytes)?, kit.array(8)?, kit.array(256)?);
        kit.checker.fill_words(barrier.whole(), 0)?;
        Ok(Self { kit, array, result, barrier })
    }

    fn step(&self, kernel: &KernelDesc, tile: Span) -> Result<G::Launch, Fault> {
        self.kit.unit.launch(kernel, 1, Arguments::new().span(tile).u64(tile.bytes() / 16))
    }

    fn both(&self, tile: Span, rounds: u32) -> Result<G::Launch, Fault> {
        let arguments = Arguments::new().span(tile).u64(tile.bytes() / 16).u32(rounds).buffer(&self.barrier);
        self.kit.unit.launch(&kernels::both(), 1, arguments)
    }

    fn load(self: &Rc<Self>, form: Form, tile: u64) -> Result<Load<G>, Fault> {
        let first = self.array.part(0, tile)?;
        let step = |kernel: &KernelDesc, span: Span| self.step(kernel, span);
        let passes = if form == Form::Cooperative { 2 * u64::from(ROUNDS) } else { 1 };
        let work = Work { traffic: Traffic::new(passes * tile, passes * tile), ..Work::default() };
        let (load, used) = match form {
            Form::Apart => {
                let count = (self.array.bytes() / tile).max(1);
                let spans = (0..count).map(|k| self.array.part(k * tile, tile)).collect::<Result<Vec<_>, Fault>>()?;
                let (producer, consumer) = (kernels::producer(), kernels::consumer());
                let producers = spans.iter().map(|span| step(&producer, *span));
                let consumers = spans.iter().map(|span| step(&consumer, *span));
                let launches = producers.chain(consumers).collect::<Result<Vec<_>, Fault>>()?;
                (self.kit.load(GRAPH, launches, work)?, spans)
            }
            Form::Cooperative => (self.kit.load(Shape::Stream, vec![self.both(first, ROUNDS)?], work)?, vec![first]),
            Form::Stream | Form::Graph => {
                let launches = vec![step(&kernels::producer(), first)?, step(&kernels::consumer(), first)?];
                let shape = if form == Form::Stream { Shape::Stream } else { GRAPH };
                (self.kit.load(shape, launches, work)?, vec![first])
            }
        };
        used.iter().try_for_each(|span| self.kit.checker.fill_words(*span, 0))?;
        let bench = Rc::clone(self);
        Ok(load.with_check(move |_| bench.updated(&used)))
    }

    /// Whether every tile has the words of a whole number of rounds, given by its first word.
    fn updated(&self, tiles: &[Span]) -> Result<Check, Fault> {
        for tile in tiles {
            let mut first = [0; 4];
            G::download(self.kit.stream(), *tile, &mut first)?;
            let rounds = u32::from_le_bytes(first) / word(0, 1);
            let wrong = self.wrong(*tile, rounds)?;
            if rounds == 0 || wrong > 0 {
                let words = tile.bytes() / 4;
                return Ok(Check::Failed(format!("{wrong} of {words} words are wrong after {rounds} rounds")));
            }
        }
        Ok(Check::Passed)
    }

    fn wrong(&self, tile: Span, rounds: u32) -> Result<u64, Fault> {
        G::upload(self.kit.stream(), self.result.whole(), &0_u64.to_le_bytes())?;
        let arguments = Arguments::new().buffer(&self.result).span(tile).u32(rounds).u64(tile.bytes() / 4);
        self.kit.run(&[Action::Launch(self.kit.unit.launch(&kernels::wrong(), 1, arguments)?)])?;
        let mut bytes = [0; 8];
        G::download(self.kit.stream(), self.result.whole(), &mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// Compares the result of launches over zeros word for word, and checks that nothing after the tile changed.
    fn check_launches(&self, tile: Span, launches: &[G::Launch], right: impl Fn(u64) -> u32) -> Result<Check, Fault> {
        let whole = self.array.part(0, tile.bytes() + GUARD)?;
        self.kit.checker.fill_words(whole, 0)?;
        self.kit.run(&launches.iter().cloned().map(Action::Launch).collect::<Vec<_>>())?;
        let found = folds::words::<G>(self.kit.stream(), whole)?;
        let expected = |w: u64| if 4 * w < tile.bytes() { right(w) } else { 0 };
        let wrong = (0..).zip(&found).find(|(w, found)| **found != expected(*w));
        Ok(wrong.map_or(Check::Passed, |(w, found)| Check::Failed(format!("word {w} is {found}, not {}", expected(w)))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_span_smallest_to_largest_that_fits() {
        let all = tiles(3, TILES.1);
        assert_eq!((all.len(), all[0], all[21]), (22, TILES.0, TILES.1));
        assert!(tiles(1, 32 << 20).iter().all(|tile| *tile <= 32 << 20));
    }
}
