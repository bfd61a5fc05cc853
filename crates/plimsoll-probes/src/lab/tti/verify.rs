//! Verifies the kernels of `tti` on awkward grids: steps with random fields and a different axis in every cell against plain loops
//! in double precision, with an upright axis against simpler loops; the same bits by every way of loading; and whether the
//! checking kernel finds one wrong cell.

use plimsoll_core::stats::Rng;

use super::kernels::{self, Loads, MARGIN, Tile};
use super::model::{Lab, Model, largest_tile};
use super::oracle::{Medium, Wave};
use crate::lab::fields::Shape;
use crate::lab::naive::is_near;
use crate::prelude::gpu::*;

/// Cells in x, y, z: smaller than a tile, and of several.
const GRIDS: [[u32; 3]; 4] = [[1, 1, 1], [5, 3, 2], [33, 13, 9], [40, 30, 24]];

/// Checks all kernels.
pub(crate) fn check_kernels<G: Gpu>(
    device: &G::Device,
    depth: Depth,
    report: &mut dyn FnMut(Case),
) -> Result<(), Fault> {
    let largest = largest_tile::<G>(device)?;
    let grids = if depth == Depth::Small { &GRIDS[..2] } else { &GRIDS[..] };
    // Tiles after the largest one that fits also fit.
    for tile in Tile::ALL.into_iter().skip_while(|tile| *tile != largest) {
        let lab = Lab::<G>::new(device, tile)?;
        for (seed, cells) in grids.iter().enumerate() {
            for upright in [false, true] {
                let bench = Bench::new(&lab, *cells, seed as u64, upright)?;
                bench.report(report)?;
            }
        }
    }
    Ok(())
}

/// A small model with fields and a medium that the host knows, without gaps.
struct Bench<G: Gpu> {
    lab: Rc<Lab<G>>,
    model: Model<G>,
    shape: Shape,
    /// p and q before, p and q now.
    start: [Vec<f32>; 4],
    medium: Vec<Medium>,
    upright: bool,
}

impl<G: Gpu> Bench<G> {
    fn new(lab: &Rc<Lab<G>>, cells: [u32; 3], seed: u64, upright: bool) -> Result<Self, Fault> {
        let shape = Shape::new(cells, MARGIN).ok_or_else(|| Fault::Invalid("a grid of no cells".to_owned()))?;
        let mut rng = Rng::new(seed);
        let count = shape.volume();
        let start = std::array::from_fn(|_| (0..count).map(|_| (2.0 * rng.uniform() - 1.0) as f32).collect());
        let mut half = |from: u64, to: u64| (from + rng.below(to - from)) as u32;
        let medium = (0..count)
            .map(|_| {
                let thomsen = half(0x2000, 0x4000) | half(0, 0x2000) << 16;
                let tilt = (half(0, 0xa000).wrapping_sub(0x5000) & 0xffff) | half(0, 0xa000).wrapping_sub(0x5000) << 16;
                Medium { v: half(300, 500) as f32 * 1e-4, thomsen, axis: if upright { 0 } else { tilt } }
            })
            .collect();
        Ok(Self { lab: Rc::clone(lab), model: Model::new(lab, shape)?, shape, start, medium, upright })
    }

    fn case(&self, kernel: String, how: &str, wrong: String) -> Case {
        let [x, y, z] = self.shape.cells;
        let axis = if self.upright { ", upright axis" } else { "" };
        Case { kernel, on: format!("{x} x {y} x {z}{axis}{how}"), wrong }
    }

    fn report(&self, report: &mut dyn FnMut(Case)) -> Result<(), Fault> {
        let [p0, q0, p1, q1] = self.start.each_ref().map(|field| field.iter().map(|x| f64::from(*x)).collect());
        let wave = Wave { cells: self.shape.cells, before: [p0, q0], now: [p1, q1] };
        let (right, off) = wave.step(&self.medium);
        let right = if self.upright { wave.upright(&self.medium) } else { right };
        let mut first = None;
        for loads in self.lab.ways.clone() {
            let name = kernels::step(loads, self.lab.tile).name;
            let found = self.stepped(loads)?;
            if loads == Loads::None {
                let turned = found[0].iter().zip(&self.start[0]).chain(found[1].iter().zip(&self.start[1]));
                let wrong = turned.filter(|(a, b)| **a != -**b).count();
                let wrong = if wrong == 0 { String::new() } else { format!("{wrong} cells didn't change their sign") };
                report(self.case(name, "", wrong));
                continue;
            }
            let both = || found.iter().flatten().zip(right.iter().flatten()).zip(off.iter().cycle());
            let wrong = both().position(|((a, b), by)| !is_near(f64::from(*a), *b, *by));
            let wrong = wrong.map_or(String::new(), |i| format!("cell {i} of p and q is wrong"));
            report(self.case(name.clone(), "", wrong));
            let bits: Vec<u32> = found.iter().flatten().map(|x| x.to_bits()).collect();
            let same = *first.get_or_insert_with(|| bits.clone()) == bits;
            let wrong = if same { String::new() } else { "the bits differ from those by direct loads".to_owned() };
            report(self.case(name, ", bits", wrong));
        }
        report(self.case(kernels::check().name, "", self.one_wrong_cell(&right)?));
        report(self.case(kernels::begin().name, "", self.initial_state()?));
        Ok(())
    }

    /// Puts fields on the device.
    fn put(&self, to: Span, field: &[f32]) -> Result<(), Fault> {
        let bytes: Vec<u8> = self.shape.padded(field).iter().flat_map(|x| x.to_le_bytes()).collect();
        G::upload(self.lab.kit.stream(), to, &bytes)
    }

    fn put_all(&self) -> Result<(), Fault> {
        let spans = self.model.before().into_iter().chain(self.model.now());
        spans.zip(&self.start).try_for_each(|(to, field)| self.put(to, field))?;
        let medium =
            |of: fn(&Medium) -> u32| self.medium.iter().map(|cell| f32::from_bits(of(cell))).collect::<Vec<f32>>();
        let words: [fn(&Medium) -> u32; 3] = [|m| m.v.to_bits(), |m| m.thomsen, |m| m.axis];
        self.model.medium.into_iter().zip(words).try_for_each(|(to, of)| self.put(to, &medium(of)))
    }

    fn get(&self, from: Span) -> Result<Vec<f32>, Fault> {
        let mut bytes = vec![0; self.shape.bytes() as usize];
        G::download(self.lab.kit.stream(), from, &mut bytes)?;
        Ok(bytes.chunks_exact(4).map(|x| f32::from_le_bytes([x[0], x[1], x[2], x[3]])).collect())
    }

    /// p and q after one step; NaN if gaps were written to.
    fn stepped(&self, loads: Loads) -> Result<[Vec<f32>; 2], Fault> {
        self.put_all()?;
        self.model.step_forward(loads)?;
        let [p, q] = self.model.now();
        let cells = |field: Vec<f32>| {
            let cells = self.shape.packed(&field);
            let whole = self.shape.padded(&cells) == field;
            if whole { cells } else { vec![f32::NAN; cells.len()] }
        };
        Ok([cells(self.get(p)?), cells(self.get(q)?)])
    }

    /// Checks that right cells pass the check and one slightly wrong cell fails it.
    fn one_wrong_cell(&self, right: &[Vec<f64>; 2]) -> Result<String, Fault> {
        self.put_all()?;
        let rooms = [self.lab.kit.array(self.shape.bytes())?, self.lab.kit.array(self.shape.bytes())?];
        let spans = [rooms[0].whole(), rooms[1].whole()];
        let [p, mut q] = right.each_ref().map(|field| field.iter().map(|x| *x as f32).collect::<Vec<f32>>());
        self.put(spans[0], &p)?;
        self.put(spans[1], &q)?;
        if let Check::Failed(wrong) = self.lab.check(&self.model, spans, self.model.before())? {
            return Ok(format!("the check rejects a right step: {wrong}"));
        }
        let last = q.len() - 1;
        q[last] += 1e-2;
        self.put(spans[1], &q)?;
        Ok(match self.lab.check(&self.model, spans, self.model.before())? {
            Check::Failed(wrong) if wrong.starts_with("1 of") => String::new(),
            Check::Failed(wrong) => format!("the check misreports one wrong cell: {wrong}"),
            Check::Passed => "the check misses a wrong cell".to_owned(),
        })
    }

    /// Checks that all fields start with the bump and that the axis has at most unit length.
    fn initial_state(&self) -> Result<String, Fault> {
        self.put_all()?;
        self.model.begin()?;
        let spans = self.model.before().into_iter().chain(self.model.now());
        let fields = spans.map(|span| Ok(self.shape.packed(&self.get(span)?))).collect::<Result<Vec<_>, Fault>>()?;
        let axes = self.shape.packed(&self.get(self.model.medium[2])?);
        let [nx, ny, nz] = self.shape.cells;
        let places = (0..nz).flat_map(|z| (0..ny).flat_map(move |y| (0..nx).map(move |x| [x, y, z])));
        for (i, place) in places.enumerate() {
            let far: f32 = (0..3).map(|axis| (place[axis] as f32 - (self.shape.cells[axis] / 2) as f32).powi(2)).sum();
            let right = (1.0 - far / 576.0).max(0.0).powi(4);
            if fields.iter().any(|field| !is_near(field[i].into(), right.into(), 1e-6)) {
                return Ok(format!("cell {i} doesn't begin with {right}"));
            }
            let axis = axes[i].to_bits();
            let [x, y] = [axis as u16, (axis >> 16) as u16].map(|half| f64::from(half as i16) / 32_768.0);
            if x * x + y * y >= 1.0 {
                return Ok(format!("the axis of cell {i} is longer than one"));
            }
        }
        Ok(String::new())
    }
}
