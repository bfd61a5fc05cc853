//! The kernels of `rtm` on awkward grids: each step against plain loops in double precision, with random fields in every cell
//! so that one left out is seen; many steps; source and receiver that change places; and whether the kernel that checks
//! measured grids sees one wrong cell.

use plimsoll_core::stats::Rng;
use plimsoll_cuda::CudaDevice;
use plimsoll_cuda::memory::Span;
use plimsoll_cuda::memory::Transfer as _;

use super::kernels::{self, Block, MARGIN};
use super::model::{Lab, Model, Walk};
use super::oracle::Wave;
use crate::lab::fields::Shape;
use crate::lab::naive::is_near;
use crate::prelude::gpu::*;

/// Cells in x, y, z: smaller than a block, around blocks of both shapes, and of several blocks.
const GRIDS: [[u32; 3]; 6] = [[1, 1, 1], [5, 3, 2], [33, 31, 9], [129, 9, 12], [128, 32, 8], [160, 40, 17]];
/// Planes of a block beside all of them.
const DEPTH: u32 = 5;
/// The grid of many steps.
const LONG: [u32; 3] = [40, 36, 33];
/// How many, in a hurry and otherwise.
const STEPS: [u32; 2] = [6, 48];
/// After so many an impulse has reached the place where it is heard: 5, 18 and 7 cells away, at most 4 a step along one axis.
const REACH: u32 = 12;
/// How far many steps in single precision may be from those in double, as a share of the largest pressure.
const APART: f64 = 2e-5;

/// Everything.
///
/// # Errors
/// The device's.
pub(crate) fn all(device: &CudaDevice, depth: Depth, report: &mut dyn FnMut(Case)) -> Result<(), Fault> {
    let lab = Lab::new(device)?;
    let grids = if depth == Depth::Small { &GRIDS[..4] } else { &GRIDS[..] };
    for (seed, cells) in grids.iter().enumerate() {
        let bench = Bench::new(&lab, *cells, seed as u64)?;
        for block in Block::ALL {
            for depth in [cells[2], DEPTH] {
                let wrong = bench.one_step(Walk { block, depth })?;
                report(bench.case(block, format!("{depth} planes a block"), wrong));
            }
        }
        let (kernel, on) = (kernels::check().name, named(*cells));
        report(Case { kernel, on, wrong: bench.one_wrong_cell(&lab)? });
        let (kernel, on) = (kernels::begin().name, named(*cells));
        report(Case { kernel, on, wrong: bench.beginning()? });
    }
    let bench = Bench::new(&lab, LONG, 7)?;
    let steps = STEPS[usize::from(depth != Depth::Small)];
    let mut wave = Wave::new(LONG, bench.started());
    (0..steps).for_each(|_| drop(wave.step()));
    for block in Block::ALL {
        let walk = Walk { block, depth: LONG[2] };
        report(bench.case(block, format!("{steps} steps"), bench.many_steps((walk, steps), &wave)?));
        if let Some(wrong) = bench.other_memory((walk, steps))? {
            report(bench.case(block, "compressible memory".to_owned(), wrong));
        }
        report(bench.case(
            block,
            "source and receiver changed".to_owned(),
            bench.changed_places((walk, steps.max(REACH)))?,
        ));
    }
    Ok(())
}

fn named([x, y, z]: [u32; 3]) -> String {
    format!("{x} x {y} x {z}")
}

/// A small model with fields that the host knows, without gaps.
struct Bench {
    lab: Rc<Lab>,
    model: Model,
    shape: Shape,
    /// The field before, the field now, the medium.
    start: [Vec<f32>; 3],
}

impl Bench {
    fn new(lab: &Rc<Lab>, cells: [u32; 3], seed: u64) -> Result<Self, Fault> {
        let shape = Shape::new(cells, MARGIN).ok_or_else(|| Fault::Invalid("a grid of no cells".to_owned()))?;
        let mut rng = Rng::new(seed);
        let mut random = |from: f64, to: f64| -> Vec<f32> {
            (0..shape.volume()).map(|_| (from + (to - from) * rng.uniform()) as f32).collect()
        };
        let start = [random(-1.0, 1.0), random(-1.0, 1.0), random(0.02, 0.2)];
        Ok(Self { lab: Rc::clone(lab), model: Model::plain(lab, shape)?, shape, start })
    }

    fn case(&self, block: Block, how: String, wrong: String) -> Case {
        Case { kernel: kernels::step(block).name, on: format!("{}, {how}", named(self.shape.cells)), wrong }
    }

    /// Puts fields on the device.
    fn put(&self, [field, p, courant]: [&[f32]; 3]) -> Result<(), Fault> {
        let [before, now] = self.model.fields();
        for (to, from) in [(before, field), (now, p), (self.model.courant, courant)] {
            let bytes: Vec<u8> = self.shape.padded(from).iter().flat_map(|x| x.to_le_bytes()).collect();
            to.upload(self.lab.kit.stream(), &bytes)?;
        }
        Ok(())
    }

    fn started(&self) -> [&[f32]; 3] {
        self.start.each_ref().map(Vec::as_slice)
    }

    fn get(&self, from: Span) -> Result<Vec<f32>, Fault> {
        let mut bytes = vec![0; self.shape.bytes() as usize];
        from.download(self.lab.kit.stream(), &mut bytes)?;
        Ok(bytes.chunks_exact(4).map(|x| f32::from_le_bytes([x[0], x[1], x[2], x[3]])).collect())
    }

    /// Every cell of one step within its bound, and gaps as they were.
    fn one_step(&self, walk: Walk) -> Result<String, Fault> {
        self.put(self.started())?;
        self.model.forth(walk)?;
        let [_, now] = self.model.fields();
        let found = self.get(now)?;
        let cells = self.shape.packed(&found);
        if self.shape.padded(&cells) != found {
            return Ok("something was written between the rows".to_owned());
        }
        let mut wave = Wave::new(self.shape.cells, self.started());
        let off = wave.step();
        let wrong = (0..cells.len()).find(|&i| !is_near(f64::from(cells[i]), wave.p[i], off[i]));
        Ok(wrong.map_or(String::new(), |i| format!("cell {i} is {}, not {}", cells[i], wave.p[i])))
    }

    /// Right cells pass the check, and one that is off by a little doesn't.
    fn one_wrong_cell(&self, lab: &Lab) -> Result<String, Fault> {
        let mut wave = Wave::new(self.shape.cells, self.started());
        wave.step();
        let mut after: Vec<f32> = wave.p.iter().map(|x| *x as f32).collect();
        self.put(self.started())?;
        let scratch = lab.kit.array(self.shape.bytes())?;
        let [before, p] = self.model.fields();
        let judge = |after: &[f32]| {
            let bytes: Vec<u8> = self.shape.padded(after).iter().flat_map(|x| x.to_le_bytes()).collect();
            scratch.upload(lab.kit.stream(), &bytes)?;
            lab.check(&self.shape, [scratch.whole(), before, p, self.model.courant])
        };
        if let Check::Failed(wrong) = judge(&after)? {
            return Ok(format!("of a right step it says that {wrong}"));
        }
        let last = after.len() - 1;
        after[last] += 1e-3;
        Ok(match judge(&after)? {
            Check::Failed(wrong) if wrong.starts_with("1 of") => String::new(),
            Check::Failed(wrong) => format!("of one wrong cell it says that {wrong}"),
            Check::Passed => "it doesn't see a wrong cell".to_owned(),
        })
    }

    /// The bump lies where it should, twice, in a medium that is stable and varies.
    fn beginning(&self) -> Result<String, Fault> {
        self.put(self.started())?;
        self.model.begin()?;
        let [before, now] = self.model.fields();
        let (before, now) = (self.shape.packed(&self.get(before)?), self.shape.packed(&self.get(now)?));
        let courant = self.shape.packed(&self.get(self.model.courant)?);
        let [nx, ny, nz] = self.shape.cells;
        let places = (0..nz).flat_map(|z| (0..ny).flat_map(move |y| (0..nx).map(move |x| [x, y, z])));
        for (i, place) in places.enumerate() {
            let far: f32 = (0..3).map(|axis| (place[axis] as f32 - (self.shape.cells[axis] / 2) as f32).powi(2)).sum();
            let right = (1.0 - far / 256.0).max(0.0).powi(4);
            if !is_near(now[i].into(), right.into(), 1e-6) || before[i].to_bits() != now[i].to_bits() {
                return Ok(format!("cell {i} begins with {} and {}, not {right}", before[i], now[i]));
            }
            if !(0.06..0.165).contains(&courant[i]) {
                return Ok(format!("the medium of cell {i} is {}", courant[i]));
            }
        }
        Ok(String::new())
    }

    /// Many steps stay near those in double precision, which end in `wave`.
    fn many_steps(&self, (walk, steps): (Walk, u32), wave: &Wave) -> Result<String, Fault> {
        self.put(self.started())?;
        (0..steps).try_for_each(|_| self.model.forth(walk))?;
        let [_, now] = self.model.fields();
        let found = self.shape.packed(&self.get(now)?);
        let largest = wave.p.iter().fold(0.0_f64, |most, x| most.max(x.abs()));
        let apart = found.iter().zip(&wave.p).map(|(a, b)| (f64::from(*a) - b).abs()).fold(0.0, nan_or_more);
        let right = apart <= APART * largest;
        Ok(if right { String::new() } else { format!("{apart:.2e} from double precision, of {largest:.2e}") })
    }

    /// The same bits in memory that may be compressed; nothing where there is none.
    fn other_memory(&self, (walk, steps): (Walk, u32)) -> Result<Option<String>, Fault> {
        let Some(model) = Model::compressible(&self.lab, self.shape)? else { return Ok(None) };
        let left = |model: &Model| {
            model.begin()?;
            (0..steps).try_for_each(|_| model.forth(walk))?;
            let [before, now] = model.fields();
            Ok::<_, Fault>(
                [self.get(before)?, self.get(now)?]
                    .map(|field| field.into_iter().map(f32::to_bits).collect::<Vec<u32>>()),
            )
        };
        let same = left(&self.model)? == left(&model)?;
        Ok(Some(if same { String::new() } else { "the bits differ from those in plain memory".to_owned() }))
    }

    /// What arrives at B of an impulse at A is what arrives at A of one at B.
    fn changed_places(&self, (walk, steps): (Walk, u32)) -> Result<String, Fault> {
        let courant = &self.start[2];
        let ends = [self.start[0].len() / 3, self.start[0].len() / 2 + 7];
        let heard = |from: usize, to: usize| {
            let zeros = vec![0.0; courant.len()];
            let mut impulse = zeros.clone();
            impulse[from] = courant[from];
            self.put([&zeros, &impulse, courant])?;
            (0..steps).try_for_each(|_| self.model.forth(walk))?;
            let [_, now] = self.model.fields();
            let found = self.shape.packed(&self.get(now)?);
            let largest = found.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
            Ok::<_, Fault>((found[to], largest))
        };
        let ((there, largest), (back, _)) = (heard(ends[0], ends[1])?, heard(ends[1], ends[0])?);
        let right = there != 0.0 && f64::from((there - back).abs()) <= APART * f64::from(largest);
        Ok(if right { String::new() } else { format!("{there} arrives one way, {back} the other") })
    }
}

/// The larger, or what is no number.
fn nan_or_more(most: f64, next: f64) -> f64 {
    if next.is_nan() || next > most { next } else { most }
}
