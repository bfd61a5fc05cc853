//! gemm on a GPU: the multiply-add of `incore` and the matrix instructions of `tensor` on random numbers, on the whole device, and
//! square products by cuBLAS if it is installed. `crate::lab::gemm` defines the figures; `products` has the products and their
//! oracle.

use plimsoll_cuda::Load;
use plimsoll_cuda::cublas::Numbers;
use plimsoll_cuda::{Cuda, CudaDevice};
use plimsoll_gen::Target;
use plimsoll_suite::formats::format;

use super::kernels::{TAMED, kernel};
use super::products::{self, Size};
use crate::cuda::steady::Steady;
use crate::incore::kernels as links;
use crate::lab::gemm::{self, ERROR, Form, Product};
use crate::prelude::gpu::*;
use crate::tensor::kernels::{Instruction, Number};
use crate::tensor::oracle::Data;
use crate::{incore::gpu as incore, tensor::gpu as tensor};

/// Rows of the library's products.
const ROWS: [u32; 2] = [4096, 8192];
/// The same for `quick`.
const FEW_ROWS: [u32; 1] = [2048];
/// Rows of verified products: no multiples of a tile; multiples of four, which the library requires for integers.
const ODD_ROWS: [u32; 4] = [4, 36, 100, 260];
/// Operations of a multiply-add.
const FLOP: f64 = 2.0;

fn target(device: &CudaDevice) -> Target {
    device.kernels.target().parse().unwrap_or(Target::plain(80))
}

/// The types in the order of the table, with their axis names.
const NUMBERS: [(gemm::Numbers, Number); 6] = [
    (gemm::Numbers::F64, Number::F64),
    (gemm::Numbers::Tf32, Number::Tf32),
    (gemm::Numbers::F16, Number::F16),
    (gemm::Numbers::Bf16, Number::Bf16),
    (gemm::Numbers::F8, Number::F8),
    (gemm::Numbers::I8, Number::I8),
];

/// The instructions to compare: for double precision each shape, for other types those of one warp and those of a warp group, with
/// and without zeros. `quick` leaves out warp instructions of types that also have warp-group instructions.
fn groups(device: &CudaDevice, quick: bool) -> Vec<(gemm::Numbers, &'static Instruction)> {
    let all = tensor::instructions::<Cuda>(device);
    let instructions = |(name, number): (gemm::Numbers, Number)| {
        let mine: Vec<&Instruction> = all.iter().copied().filter(|one| one.number == number).collect();
        let grouped = mine.iter().any(|one| one.group);
        // With A in registers the same unit runs at the same rate.
        let kept = move |one: &&Instruction| !(one.name.contains("registers") || quick && grouped && !one.group);
        mine.into_iter().filter(kept).map(move |one| (name, one)).collect::<Vec<_>>()
    };
    NUMBERS.into_iter().flat_map(instructions).collect()
}

/// A point of `instructions`.
#[derive(Clone, Copy, Debug)]
enum Rate {
    Scalar(incore::Spot),
    Matrix(gemm::Numbers, tensor::Spot),
}

impl Rate {
    fn coordinates(&self) -> gemm::Instruction {
        let (numbers, form, instruction) = match self {
            Self::Scalar(spot) => (gemm::Numbers::F64, Form::Scalar, spot.instruction.name),
            Self::Matrix(numbers, spot) if spot.instruction.sparse => (*numbers, Form::Sparse, spot.instruction.name),
            Self::Matrix(numbers, spot) => (*numbers, Form::Dense, spot.instruction.name),
        };
        gemm::Instruction { numbers, form, instruction: instruction.into() }
    }
}

/// The products that the library computes.
fn sizes(effort: Effort) -> Vec<Size> {
    let rows: &[u32] = if effort == Effort::Quick { &FEW_ROWS } else { &ROWS };
    Numbers::ALL.into_iter().flat_map(|numbers| rows.iter().map(move |&n| Size { numbers, n })).collect()
}

fn product_axes(size: &Size) -> Product {
    let numbers = match size.numbers {
        Numbers::F64 => gemm::Numbers::F64,
        Numbers::Tf32 => gemm::Numbers::Tf32,
        Numbers::F16 => gemm::Numbers::F16,
        Numbers::Bf16 => gemm::Numbers::Bf16,
        Numbers::I8 => gemm::Numbers::I8,
    };
    Product { numbers, rows: size.n.into() }
}

/// Products by the library, or why there are none.
fn library_bench(device: &CudaDevice) -> Result<products::Bench, Fault> {
    let library = device.cublas()?;
    products::Bench::new(device)?.with_library(&library)
}

impl Run<Cuda> for super::CudaRunner {
    const NEEDS: &'static [Need] = &[Need::Graphs];

    fn points(&self, device: &CudaDevice, request: &Request) -> usize {
        let quick = request.effort == Effort::Quick;
        let library = if device.cublas().is_ok() { sizes(request.effort).len() } else { 0 };
        1 + groups(device, quick).len() + library
    }

    fn run(&self, session: &mut Session<'_, Cuda>) -> Result<(), Fault> {
        let effort = session.request.effort;
        let machines = Machines::new(session.device)?;
        let rates = machines.rates(session.device, effort == Effort::Quick)?;
        let sweep = Sweep { series: gemm::instructions(), points: &rates, share: 0.5, flags: Flags::NONE };
        session.sweep(sweep, Rate::coordinates, |_, rate| Ok(Steady::new(machines.load(*rate)?)))?;
        drop(machines);
        match library_bench(session.device) {
            Ok(bench) => {
                let sizes = sizes(effort);
                let sweep = Sweep { series: gemm::products(), points: &sizes, share: 0.5, flags: Flags::NONE };
                session.sweep(sweep, product_axes, |_, size| Ok(Steady::new(bench.load(*size)?)))?;
                Ok(())
            }
            Err(fault @ Fault::Unavailable { .. }) => session.report_fault(&fault),
            Err(fault) => Err(fault),
        }
    }

    fn verify(&self, device: &mut CudaDevice, depth: Depth, report: &mut dyn FnMut(Case)) -> Result<(), Fault> {
        let bench = products::Bench::new(device)?;
        let words: &[u64] = match depth {
            Depth::Small => &[0, 1, 33],
            Depth::Usual => &[0, 1, 31, 33, 257, 4099],
            Depth::Exhaustive => &[0, 1, 2, 3, 31, 32, 33, 255, 256, 257, 4099, 1 << 20 | 1],
        };
        for format in TAMED.iter().filter_map(|name| format(name)) {
            for &n in words {
                let kernel = kernel(format).name;
                report(Case { kernel, on: format!("{n} words"), wrong: bench.untamed(format, n)? });
            }
        }
        let bench = match library_bench(device) {
            Ok(bench) => bench,
            // Nothing to verify: `measure` and `devices` report why.
            Err(Fault::Unavailable { .. }) => return Ok(()),
            Err(fault) => return Err(fault),
        };
        for numbers in Numbers::ALL {
            for n in ODD_ROWS {
                let kernel = format!("cuBLAS {}", numbers.name());
                report(Case { kernel, on: format!("{n} × {n}"), wrong: bench.wrong(Size { numbers, n })? });
            }
        }
        Ok(())
    }
}

/// The kernels of `incore` and `tensor`.
struct Machines {
    chains: incore::Bench<Cuda>,
    scalar: Option<&'static links::Instruction>,
    products: Rc<tensor::Bench<Cuda>>,
}

impl Machines {
    fn new(device: &CudaDevice) -> Result<Self, Fault> {
        let scalar = links::Instruction::for_target(target(device)).find(|one| one.name == "FMA f64");
        let chains = incore::Bench::with_instructions(device, scalar)?;
        Ok(Self { chains, scalar, products: tensor::Bench::new(device)? })
    }

    fn rates(&self, device: &CudaDevice, quick: bool) -> Result<Vec<Rate>, Fault> {
        let mut rates = Vec::new();
        if let Some(of) = self.scalar {
            rates.extend(self.chains.fastest(of)?.map(Rate::Scalar));
        }
        for (numbers, of) in groups(device, quick) {
            rates.extend(self.products.fastest(&[of], Data::Random)?.map(|spot| Rate::Matrix(numbers, spot)));
        }
        Ok(rates)
    }

    fn load(&self, rate: Rate) -> Result<Load, Fault> {
        match rate {
            Rate::Scalar(spot) => self.chains.load_whole_device(spot, FLOP),
            Rate::Matrix(_, spot) => {
                let (error, _) = self.products.error(spot)?;
                Ok(self.products.load_device(spot)?.with_extra(ERROR, error))
            }
        }
    }
}
