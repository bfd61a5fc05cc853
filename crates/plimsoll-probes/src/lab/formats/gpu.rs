//! formats on a GPU: limits by one kernel per format, rates by the kernels of `incore` and `tensor` on the whole device, each in
//! the configuration that is fastest in a single launch. `crate::lab::formats` defines the figures and the expected limits.

use plimsoll_gpu::steady::Steady;
use plimsoll_suite::formats::{Format, LIMITS, format};

use super::kernels::{self, kernel, supported_formats};
use crate::incore::kernels as links;
use crate::lab::formats::{self, Form, Known, Limits};
use crate::prelude::gpu::*;
use crate::tensor::kernels as products;
use crate::tensor::kernels::Number;
use crate::tensor::oracle::Data;
use crate::{incore::gpu as incore, tensor::gpu as tensor};

/// Bytes of the limits that one thread writes.
const ONE: u64 = 8 * LIMITS.len() as u64;
/// Copies of a format's limits in the largest check: more than a block's threads.
const MOST: u64 = 1025;
/// Fill bytes of the arrays before a launch; no format has a limit made only of one of these.
const BEFORE: [u8; 2] = [0xa5, 0x5a];

/// Multiply-adds, one number at a time and in pairs: format, form, the chain's name, and operations per link.
const LINKS: [(&str, Form, &str, f64); 6] = [
    ("f64", Form::Scalar, "FMA f64", 2.0),
    ("f32", Form::Scalar, "FMA f32", 2.0),
    ("f16", Form::Scalar, "FMA f16", 2.0),
    ("bf16", Form::Scalar, "FMA bf16", 2.0),
    ("f16", Form::Packed, "FMA f16x2", 4.0),
    ("bf16", Form::Packed, "FMA bf16x2", 4.0),
];
/// Matrix products: format, and its name in the tensor probe.
const PRODUCTS: [(&str, Number); 6] = [
    ("f64", Number::F64),
    ("tf32", Number::Tf32),
    ("f16", Number::F16),
    ("bf16", Number::Bf16),
    ("f8e4m3", Number::F8),
    ("f8e5m2", Number::F8E5m2),
];

/// The multiply-adds of [`LINKS`] that a device supports.
fn chains<G: Gpu>(device: &G::Device) -> Vec<(Known, Form, &'static links::Instruction, f64)> {
    let find = |name: &str| links::Instruction::for_target(G::target(device)).find(|one| one.name == name);
    let known = |name| format(name).map(Known);
    LINKS.into_iter().filter_map(|(of, form, name, flop)| Some((known(of)?, form, find(name)?, flop))).collect()
}

/// The matrix instructions of each format, for formats with at least one on this device.
fn matrices<G: Gpu>(device: &G::Device) -> Vec<(Known, Vec<&'static products::Instruction>)> {
    let all = tensor::dense::<G>(device);
    let instructions = |number| all.iter().copied().filter(|one| one.number == number).collect::<Vec<_>>();
    let formats = PRODUCTS.into_iter().filter_map(|(name, number)| Some((Known(format(name)?), instructions(number))));
    formats.filter(|(_, instructions)| !instructions.is_empty()).collect()
}

/// A point of `rates`.
#[derive(Clone, Copy, Debug)]
enum Rate {
    Chains { format: Known, form: Form, spot: incore::Spot, flop: f64 },
    Products { format: Known, spot: tensor::Spot },
}

impl Rate {
    fn coordinates(&self) -> formats::Rate {
        let (format, form, instruction) = match self {
            Self::Chains { format, form, spot, .. } => (format, *form, spot.instruction.name),
            Self::Products { format, spot } => (format, Form::Matrix, spot.instruction.name),
        };
        formats::Rate { format: *format, form, instruction: instruction.into() }
    }
}

impl<G: Gpu> Run<G> for super::GpuRunner {
    const NEEDS: &'static [Need] =
        &[Need::Code(&kernels::SOURCE), Need::Code(&links::SOURCE), Need::Code(&products::SOURCE), Need::Graphs];

    fn points(&self, device: &G::Device, _: &Request) -> usize {
        supported_formats(G::target(device)).count() + chains::<G>(device).len() + matrices::<G>(device).len()
    }

    fn run(&self, session: &mut Session<'_, G>) -> Result<(), Fault> {
        let bench = Bench::<G>::new(session.device)?;
        let find = |format: &'static Format| Ok((format, bench.find_limits(format, BEFORE[0])?));
        let found = supported_formats(G::target(session.device)).map(find).collect::<Result<Vec<_>, Fault>>()?;
        let machines = Machines::<G>::new(session.device)?;
        let rates = machines.rates(session.device)?;
        let sweep = Sweep { series: formats::limits(), points: &found, share: 0.1, flags: Flags::NONE };
        session.sweep(
            sweep,
            |(format, bits)| Limits::new(format, *bits),
            |_, (format, bits)| bench.load(format, bits),
        )?;
        let sweep = Sweep { series: formats::rates(), points: &rates, share: 0.9, flags: Flags::NONE };
        session.sweep(sweep, Rate::coordinates, |_, rate| Ok(Steady::new(machines.load(*rate)?)))?;
        Ok(())
    }

    fn verify(&self, device: &mut G::Device, depth: Depth, report: &mut dyn FnMut(Case)) -> Result<(), Fault> {
        let bench = Bench::<G>::new(device)?;
        let copies: &[u64] = match depth {
            Depth::Small => &[1, 33],
            Depth::Usual => &[1, 31, 33, 257],
            Depth::Exhaustive => &[1, 2, 31, 32, 33, 255, 256, 257, 511, MOST],
        };
        for format in supported_formats(G::target(device)) {
            for &n in copies {
                let wrong = bench.wrong(format, n)?;
                report(Case { kernel: kernel(format).name, on: format!("{n} threads"), wrong });
            }
        }
        Ok(())
    }
}

/// The kernels that find limits.
struct Bench<G: Gpu> {
    kit: Kit<G>,
    out: G::Buffer,
}

impl<G: Gpu> Bench<G> {
    fn new(device: &G::Device) -> Result<Rc<Self>, Fault> {
        let kit = Kit::<G>::new(device, &kernels::SOURCE, &kernels::kernels(G::target(device)), TRUST)?;
        // One more copy than is written; it must stay unchanged.
        let out = kit.array((MOST + 1) * ONE)?;
        Ok(Rc::new(Self { kit, out }))
    }

    fn launch(&self, format: &Format, n: u64) -> Result<G::Launch, Fault> {
        self.kit.unit.launch(&kernel(format), n, Arguments::new().buffer(&self.out).u64(n))
    }

    /// The array after a launch of n threads, with one copy's room behind, if every byte was `before`.
    fn launch_over(&self, format: &Format, n: u64, before: u8) -> Result<Vec<u64>, Fault> {
        let room = self.out.part(0, (n + 1) * ONE)?;
        self.kit.run(&[Action::Fill(room, before), Action::Launch(self.launch(format, n)?)])?;
        let mut bytes = vec![0; room.bytes() as usize];
        G::download(self.kit.stream(), room, &mut bytes)?;
        Ok(bytes.chunks_exact(8).map(|word| u64::from_le_bytes(std::array::from_fn(|at| word[at]))).collect())
    }

    /// A format's limits as one thread finds them.
    fn find_limits(&self, format: &Format, before: u8) -> Result<[u64; LIMITS.len()], Fault> {
        let left = self.launch_over(format, 1, before)?;
        Ok(std::array::from_fn(|place| left[place]))
    }

    /// Launches that find these limits. A deviation from the standard is a finding, not a failure; the check is that another
    /// launch over different fill bytes finds the same limits.
    fn load(self: &Rc<Self>, format: &'static Format, bits: &[u64]) -> Result<Load<G>, Fault> {
        let load = self.kit.load(GRAPH, vec![self.launch(format, 1)?], Work::default())?;
        let load = formats::values(format, bits).fold(load, |load, (metric, value)| load.with_extra(metric, value));
        let (bench, bits) = (Rc::clone(self), bits.to_vec());
        Ok(load.with_check(move |_| {
            let again = bench.find_limits(format, BEFORE[1])?;
            let other = LIMITS.iter().zip(bits.iter().zip(&again)).find(|(_, (bits, again))| bits != again);
            Ok(other.map_or(Check::Passed, |(limit, (bits, again))| {
                let (bits, again) = (format.to_hex(*bits), format.to_hex(*again));
                Check::Failed(format!("{} is {bits} in one launch and {again} in another", limit.name()))
            }))
        }))
    }

    /// Compares every thread's limits with the standard; empty if they match.
    fn wrong(&self, format: &Format, n: u64) -> Result<String, Fault> {
        let words = self.launch_over(format, n, BEFORE[0])?;
        let (found, behind) = words.split_at(words.len() - LIMITS.len());
        for (thread, bits) in found.chunks_exact(LIMITS.len()).enumerate() {
            if let Some((limit, bits)) =
                LIMITS.iter().zip(bits).find(|(limit, bits)| !format.has_limit(**limit, **bits))
            {
                return Ok(format!("thread {thread}: {} is {}", limit.name(), format.to_hex(*bits)));
            }
        }
        let kept = behind.iter().all(|word| word.to_le_bytes() == [BEFORE[0]; 8]);
        Ok(if kept { String::new() } else { "the kernel wrote past the last thread's limits".to_owned() })
    }
}

/// The kernels of `incore` and `tensor`.
struct Machines<G: Gpu> {
    chains: incore::Bench<G>,
    products: Rc<tensor::Bench<G>>,
}

impl<G: Gpu> Machines<G> {
    fn new(device: &G::Device) -> Result<Self, Fault> {
        let instructions = chains::<G>(device).into_iter().map(|(_, _, of, _)| of);
        let chains = incore::Bench::with_instructions(device, instructions)?;
        Ok(Self { chains, products: tensor::Bench::new(device)? })
    }

    /// Every format in every form, in the configuration that is fastest in a single launch.
    fn rates(&self, device: &G::Device) -> Result<Vec<Rate>, Fault> {
        let mut rates = Vec::new();
        for (format, form, of, flop) in chains::<G>(device) {
            let spot = self.chains.fastest(of)?;
            rates.extend(spot.map(|spot| Rate::Chains { format, form, spot, flop }));
        }
        for (format, instructions) in matrices::<G>(device) {
            let spot = self.products.fastest(&instructions, Data::Whole)?;
            rates.extend(spot.map(|spot| Rate::Products { format, spot }));
        }
        Ok(rates)
    }

    fn load(&self, rate: Rate) -> Result<Load<G>, Fault> {
        match rate {
            Rate::Chains { spot, flop, .. } => self.chains.load_whole_device(spot, flop),
            Rate::Products { spot, .. } => self.products.load_device(spot),
        }
    }
}
