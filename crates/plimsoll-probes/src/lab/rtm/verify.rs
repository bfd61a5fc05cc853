//! Verifies the kernels of `rtm` on awkward grids: single steps against plain loops in double precision, with random values in
//! every cell so that a missing one shows; many steps; exchange of source and receiver; and whether the checking kernel finds one
//! wrong cell.

use plimsoll_core::stats::Rng;
use plimsoll_cuda::CudaDevice;
use plimsoll_cuda::memory::Span;
use plimsoll_cuda::memory::Transfer as _;

use super::kernels::{self, Block, MARGIN};
use super::model::{Lab, Model, Traversal};
use super::oracle::Wave;
use crate::lab::fields::Shape;
use crate::lab::naive::is_near;
use crate::prelude::gpu::*;

/// Cells in x, y, z: smaller than a block, around blocks of both shapes, and of several blocks.
const GRIDS: [[u32; 3]; 6] = [[1, 1, 1], [5, 3, 2], [33, 31, 9], [129, 9, 12], [128, 32, 8], [160, 40, 17]];
/// Planes per block, besides the case of all planes.
const DEPTH: u32 = 5;
/// The grid for many steps.
const LONG: [u32; 3] = [40, 36, 33];
/// The number of steps: `Depth::Small` and otherwise.
const STEPS: [u32; 2] = [6, 48];
/// Steps until an impulse reaches its receiver, 5, 18 and 7 cells away, at most 4 cells per step along an axis.
const REACH: u32 = 12;
/// Allowed difference between many steps in single and in double precision, as a share of the largest pressure.
const APART: f64 = 2e-5;

/// Checks all kernels.
pub(crate) fn check_kernels(device: &CudaDevice, depth: Depth, report: &mut dyn FnMut(Case)) -> Result<(), Fault> {
    let lab = Lab::new(device)?;
    let grids = if depth == Depth::Small { &GRIDS[..4] } else { &GRIDS[..] };
    for (seed, cells) in grids.iter().enumerate() {
        let bench = Bench::new(&lab, *cells, seed as u64)?;
        for block in Block::ALL {
            for depth in [cells[2], DEPTH] {
                let wrong = bench.one_step(Traversal { block, depth })?;
                report(bench.case(block, format!("{depth} planes a block"), wrong));
            }
        }
        let (kernel, on) = (kernels::check().name, format_grid(*cells));
        report(Case { kernel, on, wrong: bench.one_wrong_cell(&lab)? });
        let (kernel, on) = (kernels::begin().name, format_grid(*cells));
        report(Case { kernel, on, wrong: bench.initial_state()? });
    }
    let bench = Bench::new(&lab, LONG, 7)?;
    let steps = STEPS[usize::from(depth != Depth::Small)];
    let mut wave = Wave::new(LONG, bench.started());
    (0..steps).for_each(|_| drop(wave.step()));
    for block in Block::ALL {
        let traversal = Traversal { block, depth: LONG[2] };
        report(bench.case(block, format!("{steps} steps"), bench.many_steps((traversal, steps), &wave)?));
        if let Some(wrong) = bench.other_memory((traversal, steps))? {
            report(bench.case(block, "compressible memory".to_owned(), wrong));
        }
        report(bench.case(
            block,
            "source and receiver exchanged".to_owned(),
            bench.exchanged_places((traversal, steps.max(REACH)))?,
        ));
    }
    Ok(())
}

fn format_grid([x, y, z]: [u32; 3]) -> String {
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
        Case { kernel: kernels::step(block).name, on: format!("{}, {how}", format_grid(self.shape.cells)), wrong }
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

    /// Checks that every cell of one step is within its bound and that gaps are unchanged.
    fn one_step(&self, traversal: Traversal) -> Result<String, Fault> {
        self.put(self.started())?;
        self.model.step_forward(traversal)?;
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

    /// Checks that right cells pass the check and one slightly wrong cell fails it.
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
            return Ok(format!("the check rejects a right step: {wrong}"));
        }
        let last = after.len() - 1;
        after[last] += 1e-3;
        Ok(match judge(&after)? {
            Check::Failed(wrong) if wrong.starts_with("1 of") => String::new(),
            Check::Failed(wrong) => format!("the check misreports one wrong cell: {wrong}"),
            Check::Passed => "the check misses a wrong cell".to_owned(),
        })
    }

    /// Checks that both fields start with the bump in a stable medium.
    fn initial_state(&self) -> Result<String, Fault> {
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

    /// Compares many steps with those in double precision, which end in `wave`.
    fn many_steps(&self, (traversal, steps): (Traversal, u32), wave: &Wave) -> Result<String, Fault> {
        self.put(self.started())?;
        (0..steps).try_for_each(|_| self.model.step_forward(traversal))?;
        let [_, now] = self.model.fields();
        let found = self.shape.packed(&self.get(now)?);
        let largest = wave.p.iter().fold(0.0_f64, |most, x| most.max(x.abs()));
        let apart = found.iter().zip(&wave.p).map(|(a, b)| (f64::from(*a) - b).abs()).fold(0.0, max_or_nan);
        let right = apart <= APART * largest;
        Ok(if right { String::new() } else { format!("{apart:.2e} from double precision, of {largest:.2e}") })
    }

    /// Compares the bits with those in compressible memory; `None` if there is none.
    fn other_memory(&self, (traversal, steps): (Traversal, u32)) -> Result<Option<String>, Fault> {
        let Some(model) = Model::compressible(&self.lab, self.shape)? else { return Ok(None) };
        let left = |model: &Model| {
            model.begin()?;
            (0..steps).try_for_each(|_| model.step_forward(traversal))?;
            let [before, now] = model.fields();
            Ok::<_, Fault>(
                [self.get(before)?, self.get(now)?]
                    .map(|field| field.into_iter().map(f32::to_bits).collect::<Vec<u32>>()),
            )
        };
        let same = left(&self.model)? == left(&model)?;
        Ok(Some(if same { String::new() } else { "the bits differ from those in plain memory".to_owned() }))
    }

    /// An impulse at A must arrive at B as an impulse at B arrives at A.
    fn exchanged_places(&self, (traversal, steps): (Traversal, u32)) -> Result<String, Fault> {
        let courant = &self.start[2];
        let ends = [self.start[0].len() / 3, self.start[0].len() / 2 + 7];
        let response = |from: usize, to: usize| {
            let zeros = vec![0.0; courant.len()];
            let mut impulse = zeros.clone();
            impulse[from] = courant[from];
            self.put([&zeros, &impulse, courant])?;
            (0..steps).try_for_each(|_| self.model.step_forward(traversal))?;
            let [_, now] = self.model.fields();
            let found = self.shape.packed(&self.get(now)?);
            let largest = found.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
            Ok::<_, Fault>((found[to], largest))
        };
        let ((there, largest), (back, _)) = (response(ends[0], ends[1])?, response(ends[1], ends[0])?);
        let right = there != 0.0 && f64::from((there - back).abs()) <= APART * f64::from(largest);
        Ok(if right { String::new() } else { format!("{there} arrives one way, {back} the other") })
    }
}

/// The larger value, or `next` if it is NaN.
fn max_or_nan(most: f64, next: f64) -> f64 {
    if next.is_nan() || next > most { next } else { most }
}
