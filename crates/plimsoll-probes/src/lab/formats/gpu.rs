//! formats on a GPU: limits by a kernel per format, rates by the kernels of `incore` and `tensor` on the whole device, each
//! at the configuration that is fastest at a glance. What the figures mean, and what the limits must be, is
//! `crate::lab::formats`'s.

use std::rc::Rc;

use super::kernels::{self, kernel, of};
use crate::incore::kernels as links;
use crate::lab::formats::{self, Form, Known, Limits};
use crate::tensor::kernels as products;
use crate::tensor::kernels::Number;
use plimsoll_core::Fault;
use plimsoll_core::flag::Flags;
use plimsoll_core::probe::{Case, Depth, Probe, ProbeSpec, Request, Session, Sweep};
use plimsoll_core::sample::{Check, Clock as _, Work};
use plimsoll_gpu::kit::{GRAPH, Kit, late};
use plimsoll_gpu::load::{Action, Load};
use plimsoll_gpu::steady::Steady;
use plimsoll_gpu::{Arguments, Gpu, Memory as _, Need};
use plimsoll_suite::formats::{Format, LIMITS, format};

use crate::TRUST;
use crate::tensor::oracle::Data;
use crate::{incore::gpu as incore, tensor::gpu as tensor};

/// Bytes of the limits that one thread leaves.
const ONE: u64 = 8 * LIMITS.len() as u64;
/// Copies of a format's limits that the largest check makes: more than a block's threads.
const MOST: u64 = 1025;
/// What the arrays hold before a launch, byte by byte; no limit of a format is of such bytes alone.
const BEFORE: [u8; 2] = [0xa5, 0x5a];

/// Multiply-adds one number at a time and in pairs: format, form, the chain's name, and operations of a link.
const LINKS: [(&str, Form, &str, f64); 6] = [
    ("f64", Form::Scalar, "FMA f64", 2.0),
    ("f32", Form::Scalar, "FMA f32", 2.0),
    ("f16", Form::Scalar, "FMA f16", 2.0),
    ("bf16", Form::Scalar, "FMA bf16", 2.0),
    ("f16", Form::Packed, "FMA f16x2", 4.0),
    ("bf16", Form::Packed, "FMA bf16x2", 4.0),
];
/// Matrix products: format, and what the tensor probe calls its numbers.
const PRODUCTS: [(&str, Number); 6] = [
    ("f64", Number::F64),
    ("tf32", Number::Tf32),
    ("f16", Number::F16),
    ("bf16", Number::Bf16),
    ("f8e4m3", Number::F8),
    ("f8e5m2", Number::F8E5m2),
];

/// The probe.
#[derive(Debug)]
pub struct Runner;

/// The multiply-adds of the table that a device has.
fn chains<G: Gpu>(device: &G::Device) -> Vec<(Known, Form, &'static links::Instruction, f64)> {
    let find = |name: &str| links::Instruction::of(G::target(device)).find(|one| one.name == name);
    let known = |name| format(name).map(Known);
    LINKS.into_iter().filter_map(|(of, form, name, flop)| Some((known(of)?, form, find(name)?, flop))).collect()
}

/// The matrix instructions of each format that a device has any for.
fn matrices<G: Gpu>(device: &G::Device) -> Vec<(Known, Vec<&'static products::Instruction>)> {
    let all = tensor::dense::<G>(device);
    let of = |number| all.iter().copied().filter(|one| one.number == number).collect::<Vec<_>>();
    let formats = PRODUCTS.into_iter().filter_map(|(name, number)| Some((Known(format(name)?), of(number))));
    formats.filter(|(_, instructions)| !instructions.is_empty()).collect()
}

/// A point of `rates`.
#[derive(Clone, Copy, Debug)]
enum Rate {
    Chains { format: Known, form: Form, spot: incore::Spot, flop: f64 },
    Products { format: Known, spot: tensor::Spot },
}

impl Rate {
    fn at(&self) -> formats::Rate {
        let (format, form, instruction) = match self {
            Self::Chains { format, form, spot, .. } => (format, *form, spot.of.name),
            Self::Products { format, spot } => (format, Form::Matrix, spot.of.name),
        };
        formats::Rate { format: *format, form, instruction: instruction.into() }
    }
}

impl<G: Gpu> Probe<G> for Runner {
    fn spec(&self) -> &'static ProbeSpec {
        &formats::SPEC
    }

    fn needs(&self) -> &'static [Need] {
        const { &[Need::Code(&kernels::SOURCE), Need::Graphs] }
    }

    fn sized(&self) -> bool {
        false
    }

    fn points(&self, device: &G::Device, _: &Request) -> usize {
        of(G::target(device)).count() + chains::<G>(device).len() + matrices::<G>(device).len()
    }

    fn run(&self, session: &mut Session<'_, G>) -> Result<(), Fault> {
        let begin = session.clock().now();
        let bench = Bench::<G>::new(session.device)?;
        let found = |format: &'static Format| Ok((format, bench.found(format, BEFORE[0])?));
        let held = of(G::target(session.device)).map(found).collect::<Result<Vec<_>, Fault>>()?;
        let machines = Machines::<G>::new(session.device)?;
        let rates = machines.rates(session.device)?;
        let late = late(session, begin, formats::SPEC.budget(session.request.effort));
        let sweep = Sweep { series: formats::limits(), points: &held, share: 0.1 + late, flags: Flags::NONE };
        session.sweep(
            sweep,
            |(format, bits)| Limits::new(format, *bits),
            |_, (format, bits)| bench.load(format, bits),
        )?;
        let sweep = Sweep { series: formats::rates(), points: &rates, share: 0.9, flags: Flags::NONE };
        session.sweep(sweep, Rate::at, |_, rate| Ok(Steady::new(machines.load(*rate)?)))?;
        Ok(())
    }

    fn verify(&self, device: &mut G::Device, depth: Depth, report: &mut dyn FnMut(Case)) -> Result<(), Fault> {
        let bench = Bench::<G>::new(device)?;
        let copies: &[u64] = match depth {
            Depth::Small => &[1, 33],
            Depth::Usual => &[1, 31, 33, 257],
            Depth::Exhaustive => &[1, 2, 31, 32, 33, 255, 256, 257, 511, MOST],
        };
        for format in of(G::target(device)) {
            for &n in copies {
                let wrong = bench.wrong(format, n)?;
                report(Case { kernel: kernel(format).name, on: format!("{n} threads"), wrong });
            }
        }
        Ok(())
    }
}

/// The kernels that look for limits.
struct Bench<G: Gpu> {
    kit: Kit<G>,
    out: G::Buffer,
}

impl<G: Gpu> Bench<G> {
    fn new(device: &G::Device) -> Result<Rc<Self>, Fault> {
        let kit = Kit::<G>::new(device, &kernels::SOURCE, &kernels::kernels(G::target(device)), TRUST)?;
        // One copy more than is written, which must stay as it was.
        let out = kit.array((MOST + 1) * ONE)?;
        Ok(Rc::new(Self { kit, out }))
    }

    fn launch(&self, format: &Format, n: u64) -> Result<G::Launch, Fault> {
        self.kit.unit.launch(&kernel(format), n, Arguments::new().buffer(&self.out).u64(n))
    }

    /// What a launch of n threads leaves in an array that held one byte everywhere, and a copy's room behind it.
    fn left(&self, format: &Format, n: u64, before: u8) -> Result<Vec<u64>, Fault> {
        let room = self.out.part(0, (n + 1) * ONE)?;
        self.kit.run(&[Action::Fill(room, before), Action::Launch(self.launch(format, n)?)])?;
        let mut bytes = vec![0; room.bytes() as usize];
        G::download(self.kit.stream(), room, &mut bytes)?;
        Ok(bytes.chunks_exact(8).map(|word| u64::from_le_bytes(std::array::from_fn(|at| word[at]))).collect())
    }

    /// A format's limits as one thread finds them.
    fn found(&self, format: &Format, before: u8) -> Result<[u64; LIMITS.len()], Fault> {
        let left = self.left(format, 1, before)?;
        Ok(std::array::from_fn(|place| left[place]))
    }

    /// Launches that find these limits. Whether they are the standard's is a finding and no failure; that a launch leaves
    /// the same over other bytes is the check.
    fn load(self: &Rc<Self>, format: &'static Format, bits: &[u64]) -> Result<Load<G>, Fault> {
        let load = self.kit.load(GRAPH, vec![self.launch(format, 1)?], Work::default())?;
        let load = formats::values(format, bits).fold(load, |load, (metric, value)| load.with_extra(metric, value));
        let (bench, bits) = (Rc::clone(self), bits.to_vec());
        Ok(load.with_check(move |_| {
            let again = bench.found(format, BEFORE[1])?;
            let other = LIMITS.iter().zip(bits.iter().zip(&again)).find(|(_, (bits, again))| bits != again);
            Ok(other.map_or(Check::Passed, |(limit, (bits, again))| {
                let (bits, again) = (format.text(*bits), format.text(*again));
                Check::Failed(format!("{} is {bits}, and then {again}", limit.name()))
            }))
        }))
    }

    /// Every thread's limits against the standard; empty where they are right.
    fn wrong(&self, format: &Format, n: u64) -> Result<String, Fault> {
        let words = self.left(format, n, BEFORE[0])?;
        let (found, behind) = words.split_at(words.len() - LIMITS.len());
        for (thread, bits) in found.chunks_exact(LIMITS.len()).enumerate() {
            if let Some((limit, bits)) = LIMITS.iter().zip(bits).find(|(limit, bits)| !format.holds(**limit, **bits)) {
                return Ok(format!("thread {thread}: {} is {}", limit.name(), format.text(*bits)));
            }
        }
        let kept = behind.iter().all(|word| word.to_le_bytes() == [BEFORE[0]; 8]);
        Ok(if kept { String::new() } else { "there are bits behind the last thread's".to_owned() })
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
        let chains = incore::Bench::of_instructions(device, instructions)?;
        Ok(Self { chains, products: tensor::Bench::new(device)? })
    }

    /// Every format in every form, at the configuration that is fastest at a glance.
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
            Rate::Chains { spot, flop, .. } => self.chains.whole(spot, flop),
            Rate::Products { spot, .. } => self.products.whole(spot),
        }
    }
}
