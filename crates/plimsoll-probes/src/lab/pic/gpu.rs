//! pic on a GPU: a magnetic field rotates the velocities of particles, with one thread per particle or matrix products of a warp
//! for sixteen. `crate::lab::pic` defines the figures; `kernel.cu` has the kernels and `oracle` the expected results.

use plimsoll_gpu::{Form, Geometry};

use super::kernels::{self, CELLS, CORNERS, NUMBERS, Way};
use super::oracle::{Errors, Particle, push, tolerance};
use super::{ANGLE, MATRIX_OPERATIONS, Push, SCALAR_OPERATIONS, SPEED};
use crate::lab::pic;
use crate::prelude::gpu::*;

/// Particles of a cell.
const PER_CELL: u32 = 256;
/// Particles at quick, standard and thorough: even the fewest are 604 MB to read and as many to write, more than any cache.
const PARTICLES: [u64; 3] = [24 << 20, 32 << 20, 64 << 20];
/// Pushes per read and write of a particle: bound by memory, and by arithmetic.
const PUSHES: [u32; 2] = [1, 16];
/// Largest field along an axis: rotations of up to 33°.
const FIELD: f32 = 0.17;
/// Cells that a push moves a particle by at a velocity of one.
const STEP: f32 = 0.01;
/// Particles used to estimate errors.
const SOME: u64 = 4096;

impl<G: Gpu> Run<G> for super::GpuRunner {
    const NEEDS: &'static [Need] = &[Need::Code(&kernels::SOURCE), Need::Graphs];

    fn points(&self, _: &G::Device, _: &Request) -> usize {
        points().len()
    }

    fn run(&self, session: &mut Session<'_, G>) -> Result<(), Fault> {
        let effort = session.request.effort;
        let asked = session.request.bytes.map(|bytes| bytes / 4);
        if asked.is_some_and(|particles| particles < SOME) {
            let least = 4 * SOME;
            return Err(Fault::Invalid(format!("too few bytes for {SOME} particles; request at least {least}")));
        }
        let wanted = asked.unwrap_or(
            PARTICLES[match effort {
                Effort::Thorough => 2,
                Effort::Standard => 1,
                _ => 0,
            }],
        );
        // The fields of a cell add a few bytes per particle.
        let (bytes, flags) = fit_arrays::<G>(session.device, 2 * NUMBERS + 1, 4 * wanted)?;
        let layout = Layout { particles: wanted.min(bytes / 4), per_cell: PER_CELL };
        let bench = Rc::new(Bench::<G>::new(session.device, layout, FIELD, session.request.seed as u32)?);
        let points = points();
        let sweep = Sweep { series: pic::rate(), points: &points, share: 1.0, flags };
        let coordinates = |(way, pushes): &(Way, u32)| Push { way: *way, pushes: (*pushes).into() };
        session.sweep(sweep, coordinates, |_, (way, pushes)| bench.load(*way, *pushes)).map(drop)
    }

    fn verify(&self, device: &mut G::Device, depth: Depth, report: &mut dyn FnMut(Case)) -> Result<(), Fault> {
        let layouts: &[(u64, u32)] = match depth {
            Depth::Small => &[(1, 1), (33, 7)],
            _ => &[(1, 1), (33, 7), (64, 16), (1000, 33), (4099, 256)],
        };
        for (seed, (particles, per_cell)) in layouts.iter().enumerate() {
            let layout = Layout { particles: *particles, per_cell: *per_cell };
            for (field, what) in [(FIELD, ""), (0.0, ", no field")] {
                let bench = Bench::<G>::new(device, layout, field, seed as u32)?;
                for (way, pushes) in Way::ALL.into_iter().flat_map(|way| [1, 5, 16].map(|pushes| (way, pushes))) {
                    let on = format!("{particles} particles, {per_cell} a cell, {pushes} pushes{what}");
                    let wrong = bench.once(way, pushes)?;
                    report(Case { kernel: kernels::push(way).name, on, wrong });
                }
                let wrong = bench.beginning()?;
                report(Case { kernel: kernels::begin().name, on: format!("{particles} particles{what}"), wrong });
            }
        }
        Ok(())
    }
}

/// Both ways next to each other.
fn points() -> Vec<(Way, u32)> {
    PUSHES.into_iter().flat_map(|pushes| Way::ALL.map(|way| (way, pushes))).collect()
}

/// The number of particles, in all and per cell.
#[derive(Clone, Copy, Debug)]
struct Layout {
    particles: u64,
    per_cell: u32,
}

impl Layout {
    fn cells(self) -> u64 {
        self.particles.div_ceil(self.per_cell.into())
    }

    /// Numbers at the corners of all cells, including those that fill up the last block.
    fn fields(self) -> u64 {
        self.cells().next_multiple_of(CELLS.into()) * u64::from(3 * CORNERS)
    }
}

/// State shared by all points: unchanging input particles, and room for the output.
struct Bench<G: Gpu> {
    kit: Kit<G>,
    layout: Layout,
    field: f32,
    at: G::Buffer,
    out: G::Buffer,
    corners: G::Buffer,
}

impl<G: Gpu> Bench<G> {
    fn new(device: &G::Device, layout: Layout, field: f32, seed: u32) -> Result<Self, Fault> {
        let kit = Kit::<G>::new(device, &kernels::SOURCE, &kernels::kernels(), TRUST)?;
        let array = |numbers: u64| kit.array(4 * numbers);
        let (at, out) = (array(NUMBERS * layout.particles)?, array(NUMBERS * layout.particles)?);
        let corners = array(layout.fields())?;
        let bench = Self { kit, layout, field, at, out, corners };
        let all = layout.particles.max(layout.fields());
        let blocks = u32::try_from(all.div_ceil(256)).map_err(|_| Fault::Invalid("too many particles".to_owned()))?;
        let list = Arguments::new().buffer(&bench.at).buffer(&bench.corners).u64(layout.particles);
        let list = list.u64(layout.fields()).f32(field).u32(seed);
        let function = bench.kit.unit.function(&kernels::begin())?;
        bench.kit.run(&[Action::Launch(function.launch(Geometry::linear(blocks, 256), Form::default(), &list)?)])?;
        Ok(bench)
    }

    fn launch(&self, way: Way, pushes: u32) -> Result<G::Launch, Fault> {
        let kernel = kernels::push(way);
        let blocks = u32::try_from(self.layout.cells().div_ceil(CELLS.into())).unwrap_or(u32::MAX);
        let list = Arguments::new().buffer(&self.out).buffer(&self.at).buffer(&self.corners);
        let list = list.u64(self.layout.particles).u32(self.layout.per_cell).u32(pushes).f32(STEP);
        self.kit.unit.function(&kernel)?.launch(Geometry::linear(blocks, kernel.threads), Form::default(), &list)
    }

    fn load(self: &Rc<Self>, way: Way, pushes: u32) -> Result<Load<G>, Fault> {
        let particles = self.layout.particles;
        let bytes = 4 * NUMBERS * particles;
        let fields = 4 * u64::from(3 * CORNERS) * self.layout.cells();
        let operations = particles as f64 * f64::from(pushes);
        let work = Work { traffic: Traffic::new(bytes + fields, bytes), operations, window: bytes, ..Work::default() };
        // Errors depend on the kernel only, so one launch is enough.
        self.kit.checker.poison(self.out.whole())?;
        self.kit.run(&[Action::Launch(self.launch(way, pushes)?)])?;
        let errors = self.errors(pushes)?;
        let [scalar, matrix] = way.operations();
        self.kit.checker.poison(self.out.whole())?;
        let load = self.kit.load(GRAPH, vec![self.launch(way, pushes)?], work)?;
        let own = Rc::clone(self);
        let load = load.with_extra(SPEED, errors.speed).with_extra(ANGLE, errors.angle);
        let load = load.with_extra(SCALAR_OPERATIONS, scalar).with_extra(MATRIX_OPERATIONS, matrix);
        Ok(load.with_check(move |_| {
            let wrong = own.wrong(way, pushes)?;
            Ok(if wrong.is_empty() { Check::Passed } else { Check::Failed(wrong) })
        }))
    }

    /// One launch on poisoned memory; compares the particles with pushes in double precision.
    fn once(&self, way: Way, pushes: u32) -> Result<String, Fault> {
        self.kit.checker.poison(self.out.whole())?;
        self.kit.run(&[Action::Launch(self.launch(way, pushes)?)])?;
        self.wrong(way, pushes)
    }

    /// Indices of the first and the last particles, at most `SOME` in all.
    fn places(&self) -> Vec<u64> {
        let (n, half) = (self.layout.particles, SOME / 2);
        if n <= SOME { (0..n).collect() } else { (0..half).chain(n - half..n).collect() }
    }

    /// The particles of an array at [`places`](Self::places).
    fn some(&self, array: &G::Buffer) -> Result<Vec<Particle>, Fault> {
        let (n, places) = (self.layout.particles, self.places());
        let half = places.len().div_ceil(2);
        let mut numbers = vec![Vec::with_capacity(places.len()); NUMBERS as usize];
        for (k, numbers) in (0_u64..).zip(&mut numbers) {
            for part in places.chunks(half.max(1)) {
                let mut bytes = vec![0; 4 * part.len()];
                let place = array.part(4 * (k * n + part[0]), bytes.len() as u64)?;
                G::download(self.kit.stream(), place, &mut bytes)?;
                numbers.extend(bytes.chunks_exact(4).map(|x| f64::from(f32::from_le_bytes([x[0], x[1], x[2], x[3]]))));
            }
        }
        let particle = |i: usize| {
            let three = |from: usize| std::array::from_fn(|k| numbers[from + k][i]);
            Particle { x: three(0), v: three(3) }
        };
        Ok((0..places.len()).map(particle).collect())
    }

    /// The expected particles at [`places`](Self::places).
    fn right(&self, pushes: u32) -> Result<Vec<Particle>, Fault> {
        let each = 4 * u64::from(3 * CORNERS);
        let mut cached: Option<(u64, [f64; 24])> = None;
        let mut right = Vec::new();
        for (i, particle) in self.places().into_iter().zip(self.some(&self.at)?) {
            let cell = i / u64::from(self.layout.per_cell);
            let corners = match cached {
                Some((known, corners)) if known == cell => corners,
                _ => {
                    let mut bytes = vec![0; each as usize];
                    G::download(self.kit.stream(), self.corners.part(cell * each, each)?, &mut bytes)?;
                    let number = |k: usize| f32::from_le_bytes(std::array::from_fn(|byte| bytes[4 * k + byte]));
                    std::array::from_fn(|k| f64::from(number(k)))
                }
            };
            cached = Some((cell, corners));
            right.push(push(particle, &corners, (pushes, STEP.into())));
        }
        Ok(right)
    }

    fn errors(&self, pushes: u32) -> Result<Errors, Fault> {
        Ok(Errors::between(&self.some(&self.out)?, &self.right(pushes)?))
    }

    fn wrong(&self, way: Way, pushes: u32) -> Result<String, Fault> {
        let (found, right, by) = (self.some(&self.out)?, self.right(pushes)?, tolerance(way, pushes));
        let wrong = found.iter().zip(&right).position(|(found, right)| !found.is_near(right, by));
        let place = |i: usize| self.places()[i];
        Ok(wrong.map_or(String::new(), |i| format!("particle {} is {:?}, not {:?}", place(i), found[i], right[i])))
    }

    /// Checks that initial places are inside the cell, velocities and fields in range, and particles distinct.
    fn beginning(&self) -> Result<String, Fault> {
        let particles = self.some(&self.at)?;
        let inside =
            |p: &Particle| p.x.iter().all(|x| (0.0..1.0).contains(x)) && p.v.iter().all(|v| (-1.0..1.0).contains(v));
        let alike = particles.windows(2).any(|pair| pair[0] == pair[1]);
        let mut bytes = vec![0; 4 * 3 * CORNERS as usize];
        G::download(self.kit.stream(), self.corners.whole(), &mut bytes)?;
        let fields = bytes.chunks_exact(4).map(|x| f32::from_le_bytes([x[0], x[1], x[2], x[3]]));
        let small = fields.into_iter().all(|field| field.abs() <= self.field);
        let right = particles.iter().all(inside) && !alike && small;
        Ok(if right {
            String::new()
        } else {
            "initial particles or fields are out of range or not distinct".to_owned()
        })
    }
}
