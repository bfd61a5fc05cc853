//! roofline on a GPU: multiply-adds of growing intensity over an array larger than any cache, on all SMs, in four types;
//! except with quick effort, also the energy of steady loads. `crate::roofline` explains the curve; the kernels are in
//! `kernel.cu`.

use plimsoll_core::series::FlopPerByte;
use plimsoll_gpu::Meter;

use super::kernels::{self, Form};
use crate::meter::Metered;
use crate::prelude::gpu::*;
use crate::roofline::{Place, Type};
use crate::{TRUST, roofline};

/// Bytes of a vector, the kernels' unit.
const VECTOR: u64 = 16;
/// Most vectors that a thread holds at once.
const MOST_VECTORS: u64 = 4;
/// Threads of a block.
const THREADS: u64 = 256;

fn forms() -> Vec<Form> {
    Type::ALL.into_iter().flat_map(Form::all_of_type).collect()
}

/// Forms for the energy series: along the f32 curve, and at the compute-bound end of the other types.
fn steady() -> Vec<Form> {
    let singles = Form::all_of_type(Type::F32).step_by(4);
    let ends = Type::ALL.into_iter().filter_map(|real| Form::all_of_type(real).last());
    singles.chain(ends).collect()
}

fn to_place(form: &Form) -> Place {
    Place { kind: form.real, intensity: FlopPerByte(form.arithmetic_intensity()) }
}

/// Energy needs long steady loads, which don't fit into a quick run.
fn has_energy(effort: Effort) -> bool {
    effort != Effort::Quick
}

impl<G: Gpu> Run<G> for super::GpuRunner {
    const NEEDS: &'static [Need] = &[Need::Code(&kernels::SOURCE), Need::Graphs];

    fn points(&self, _: &G::Device, request: &Request) -> usize {
        forms().len() + if has_energy(request.effort) { steady().len() } else { 0 }
    }

    fn run(&self, session: &mut Session<'_, G>) -> Result<(), Fault> {
        let effort = session.request.effort;
        let wanted = requested_bytes(session, session.info().cold_window())?;
        let iteration = Bench::<G>::iteration_bytes(session.device)?;
        let (bytes, flags) = fit_arrays::<G>(session.device, 1, wanted.saturating_add(iteration))?;
        let bytes = bytes.min(wanted.saturating_add(iteration)).max(iteration);
        let meter = G::meter(session.device);
        let bench = Rc::new(Bench::<G>::new(session.device, bytes, session.request.seed)?);
        let with_energy = has_energy(effort) && meter.is_some();
        // Both series together take two thirds of what a CPU needs.
        let share = if with_energy { 0.32 } else { 0.66 };
        let forms = forms();
        let sweep = Sweep { series: roofline::sweep(), points: &forms, share, flags };
        session.sweep(sweep, to_place, |_, form| bench.load(*form, None))?;
        if with_energy {
            let steady = steady();
            let sweep = Sweep { series: roofline::energy(), points: &steady, share: 0.34, flags };
            session.sweep(sweep, to_place, |_, form| Ok(bench.load(*form, meter.clone())?.steady()))?;
        }
        Ok(())
    }

    fn verify(&self, device: &mut G::Device, depth: Depth, report: &mut dyn FnMut(Case)) -> Result<(), Fault> {
        let iterations: &[u32] = match depth {
            Depth::Small => &[0, 1, 3],
            Depth::Usual => &[0, 1, 2, 3, 7],
            Depth::Exhaustive => &[0, 1, 2, 3, 4, 5, 6, 7, 8, 15, 16, 17],
        };
        let most = u64::from(iterations[iterations.len() - 1]);
        let bench = Bench::<G>::new(device, most * Bench::<G>::iteration_bytes(device)?, 1)?;
        for form in forms() {
            for &iterations in iterations {
                let check = bench.compare_once(form, iterations)?;
                report(Case::new(form.kernel().name, format!("{iterations} iterations"), check));
            }
        }
        for real in Type::ALL {
            let (kernel, on) = (kernels::reference(real).name, "the first warp, 2 iterations");
            report(Case::new(kernel, on, bench.check_reference(real)?));
        }
        Ok(())
    }
}

/// Shared by all points: kernels and the array.
struct Bench<G: Gpu> {
    kit: Kit<G>,
    input: G::Buffer,
    bytes: u64,
    out: G::Buffer,
    expected: G::Buffer,
    clock: Rc<G::Buffer>,
}

impl<G: Gpu> Bench<G> {
    /// Most bytes that the largest grid reads in one loop iteration.
    fn iteration_bytes(device: &G::Device) -> Result<u64, Fault> {
        Ok(u64::from(G::machine(device)?.multiprocessors) * 2048 * MOST_VECTORS * VECTOR)
    }

    fn new(device: &G::Device, bytes: u64, seed: u64) -> Result<Self, Fault> {
        let kit = Kit::<G>::new(device, &kernels::SOURCE, &kernels::kernels(), TRUST)?;
        let warps = u64::from(kit.unit.machine().multiprocessors) * 2048 / 32;
        let (input, out, expected) = (kit.array(bytes)?, kit.array(4 * warps)?, kit.array(4 * warps)?);
        let clock = Rc::new(kit.array(16)?);
        // Read as f32 they lie in [1, 2); read as f64 or 16-bit floats they are finite and positive, too.
        kit.checker.fill(Data::Unit, Element::F32, input.whole(), seed)?;
        Ok(Self { kit, input, bytes, out, expected, clock })
    }

    /// The kernel on as many blocks as are resident at once.
    fn kernel(&self, form: Form) -> Result<KernelDesc, Fault> {
        let kernel = form.kernel();
        let resident = G::blocks_per_multiprocessor(self.kit.unit.function(&kernel)?.function(), kernel.threads, 0)?;
        Ok(kernel.with_grid(Grid::Resident { blocks: resident.clamp(1, 8) }))
    }

    /// Threads of the kernel's grid.
    fn threads(&self, kernel: &KernelDesc) -> Result<u64, Fault> {
        let grid = kernel.geometry(0, self.kit.unit.machine())?;
        Ok(u64::from(grid.blocks) * THREADS)
    }

    fn launch(&self, kernel: &KernelDesc, iterations: u32) -> Result<G::Launch, Fault> {
        let arguments = Arguments::new().buffer(&self.out).buffer(&self.input).buffer(&self.clock).u32(iterations);
        self.kit.unit.launch(kernel, 0, arguments)
    }

    fn load(self: &Rc<Self>, form: Form, meter: Option<Arc<dyn Meter>>) -> Result<Metered<G>, Fault> {
        let kernel = self.kernel(form)?;
        let threads = self.threads(&kernel)?;
        let iteration = threads * u64::from(form.vectors()) * VECTOR;
        let iterations = u32::try_from(self.bytes / iteration).unwrap_or(u32::MAX).max(1);
        let bytes = iteration * u64::from(iterations);
        self.kit.checker.poison(self.out.part(0, threads / 8)?)?;
        let launch = self.launch(&kernel, iterations)?;
        let operations = bytes as f64 * form.arithmetic_intensity();
        let work = Work { traffic: Traffic::new(bytes, 0), operations, window: bytes, ..Work::default() };
        let bench = Rc::clone(self);
        let check = move |_: &_| bench.compare(form, &kernel, iterations);
        let load = self.kit.load(GRAPH, vec![launch], work)?.with_check(check);
        Ok(Metered::new(load, meter, (Rc::clone(&self.clock), Arc::clone(self.kit.stream()))))
    }

    /// Runs the reference on the same grid.
    fn reference(&self, form: Form, kernel: &KernelDesc, iterations: u32) -> Result<(), Fault> {
        let reference = kernels::reference(form.real).with_grid(kernel.grid);
        let arguments = Arguments::new().buffer(&self.expected).buffer(&self.input).u32(iterations);
        let arguments = arguments.u32(form.fma).u32(form.per).u32(form.vectors());
        self.kit.run_once(&self.kit.unit.launch(&reference, 0, arguments)?)
    }

    /// Compares the kernel's output with the reference's.
    fn compare(&self, form: Form, kernel: &KernelDesc, iterations: u32) -> Result<Check, Fault> {
        self.reference(form, kernel, iterations)?;
        let bytes = self.threads(kernel)? / 8;
        let (out, expected) = (self.out.part(0, bytes)?, self.expected.part(0, bytes)?);
        self.kit.checker.check_map(Op::Copy, Element::Word, out, [expected; 3], 0.0)
    }

    /// Compares one launch with the reference.
    fn compare_once(&self, form: Form, iterations: u32) -> Result<Check, Fault> {
        let kernel = self.kernel(form)?;
        self.kit.checker.poison(self.out.part(0, self.threads(&kernel)? / 8)?)?;
        self.kit.run_once(&self.launch(&kernel, iterations)?)?;
        self.compare(form, &kernel, iterations)
    }

    /// Compares the reference's first warp with sums computed on the host, for the types that the host has (f64 and f32).
    fn check_reference(&self, real: Type) -> Result<Check, Fault> {
        const ITERATIONS: u32 = 2;
        let form = Form { real, fma: 3, per: 1 };
        let kernel = kernels::reference(real).with_grid(Grid::Blocks(1));
        self.reference(form, &kernel, ITERATIONS)?;
        let vectors = u64::from(form.vectors());
        let input = self.kit.download(self.input.part(0, u64::from(ITERATIONS) * vectors * THREADS * VECTOR)?)?;
        let mut found = [0; 4];
        G::download(self.kit.stream(), self.expected.whole(), &mut found)?;
        let words: Vec<u32> = input.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)).collect();
        // The words of vector `v` of a thread in an iteration.
        let vector = |iteration: u64, v: u64, thread: u64| {
            let first = ((iteration * vectors + v) * THREADS + thread) * 4;
            &words[first as usize..first as usize + 4]
        };
        let mut expected = 0;
        for thread in 0..32 {
            for v in 0..vectors {
                let iterations: Vec<&[u32]> =
                    (0..u64::from(ITERATIONS)).map(|iteration| vector(iteration, v, thread)).collect();
                expected ^= match real {
                    Type::F32 => (0..4)
                        .fold(0, |bits, s| bits ^ single(iterations.iter().map(|iteration| iteration[s]), form.fma)),
                    Type::F64 => {
                        let double_at = |iteration: &[u32], s: usize| {
                            f64::from_bits(u64::from(iteration[2 * s + 1]) << 32 | u64::from(iteration[2 * s]))
                        };
                        (0..2).fold(0, |bits, s| {
                            bits ^ double(iterations.iter().map(|iteration| double_at(iteration, s)), form.fma)
                        })
                    }
                    // `incore` checks chains of pairs; everything except the instruction is shared with the other types.
                    Type::F16x2 | Type::Bf16x2 => 0,
                };
            }
        }
        let (found, known) = (u32::from_le_bytes(found), matches!(real, Type::F32 | Type::F64));
        let wrong = format!("the XOR of the first warp is {found:#x}, not {expected:#x}");
        Ok(if !known || found == expected { Check::Passed } else { Check::Failed(wrong) })
    }
}

/// The bits of one accumulator's final value: for each x, x · ¾ + acc, then `fma` − 1 times acc · ¾ + 0.4.
fn single(numbers: impl Iterator<Item = u32>, fma: u32) -> u32 {
    let next = |acc: f32, x: u32| (1..fma).fold(f32::from_bits(x).mul_add(0.75, acc), |acc, _| acc.mul_add(0.75, 0.4));
    numbers.fold(0.0, next).to_bits()
}

/// The same in double precision, its two halves XORed.
fn double(numbers: impl Iterator<Item = f64>, fma: u32) -> u32 {
    let next = |acc: f64, x: f64| (1..fma).fold(x.mul_add(0.75, acc), |acc, _| acc.mul_add(0.75, 0.4));
    let bits = numbers.fold(0.0, next).to_bits();
    bits as u32 ^ (bits >> 32) as u32
}
