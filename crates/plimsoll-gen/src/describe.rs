//! Descriptions of launches for the cost model. An elementwise kernel is described by its plan and its machine code; without
//! machine code, instructions are counted in the kernel's program. A probe's kernel is described by its [`KernelDesc`].

use std::collections::BTreeMap;

use plimsoll_core::model::{Cache, Description, LaunchForm, Pipe};
use plimsoll_core::{Fault, Traffic};
use plimsoll_expr::cost::Cost;

use crate::elementwise::count::{Slots, count};
use crate::elementwise::{Dependent, Device, MOST_RESIDENT, Plan, Stream, body, disagreement};
use crate::kernel::{KernelDesc, Machine};
use crate::sass::KernelReport;

/// Registers per SM: compute capability 7.0 to 9.0.
const REGISTERS: u32 = 65_536;
/// Approximate number of registers that a kernel needs in addition to its data in flight.
const OTHER_REGISTERS: u32 = 18;
/// Instructions of a thread besides its elements' and its loads and stores: its index, the check for the end of the data, and for each tensor its
/// address. Counted in the machine code of `x + 1` and `x + y`.
const OTHER_INSTRUCTIONS: f64 = 12.0;
const PER_TENSOR: f64 = 3.0;
/// Fewest instructions per operation: a multiply and an add may fuse, and two 16-bit operations may be one instruction.
const LEAST_PER_OPERATION: f64 = 0.25;
/// Approximate cycles from one instruction of a warp to the next: 1.6 to 2.3 in kernels that evaluate functions.
const CYCLES_PER_INSTRUCTION: f64 = 2.0;

/// The instructions of one thread.
#[derive(Clone, Debug, PartialEq)]
pub struct Code {
    /// Instructions by pipe; [`Pipe::Issue`] counts all.
    pub instructions: BTreeMap<Pipe, f64>,
    /// Cycles that they take when nothing else runs.
    pub serial_cycles: f64,
    /// Registers per thread.
    pub registers: u32,
    /// True for estimated counts, not read from machine code.
    pub estimated: bool,
}

impl Code {
    /// The code that the compiler generated for the plan's kernel. The launch's `traffic` determines how many elements an
    /// iteration of the hot loop processes. `None` if the kernel has no hot part, or if its hot part is not all the work. That
    /// happens in two cases: the compiler makes long bodies functions, which the kernel calls; or the hot part that was found is the loop
    /// over the elements at the end of the data.
    #[must_use]
    pub fn from_report(report: &KernelReport, plan: &Plan, traffic: Traffic) -> Option<Self> {
        let hot = report.hot.as_ref().filter(|hot| hot.moved() > 0)?;
        if disagreement(&plan.spec, Some(hot)).is_some() {
            return None;
        }
        // Misaligned inputs and those addressed by coordinates load more than comes from memory, so only stores count.
        let loads_more = |stream: &Stream| matches!(stream, Stream::Shifted | Stream::Indexed { .. });
        let by_stores = plan.spec.streams.iter().any(loads_more) && hot.written > 0;
        let (launch_bytes, hot_bytes) =
            if by_stores { (traffic.written, hot.written) } else { (traffic.total(), hot.moved()) };
        let scale = per_thread(plan) * (launch_bytes as f64 / plan.elements.max(1) as f64) / f64::from(hot_bytes);
        let operations = Cost::from_graph(&plan.spec.graph).operations.values().sum::<u64>() as f64 * per_thread(plan);
        if f64::from(hot.instructions) * scale < operations * LEAST_PER_OPERATION {
            return None;
        }
        let cycles = hot.stalls.map_or(CYCLES_PER_INSTRUCTION * f64::from(hot.instructions), |s| f64::from(s.cycles));
        Some(Self {
            instructions: hot.pipes.iter().map(|(pipe, count)| (*pipe, f64::from(*count) * scale)).collect(),
            serial_cycles: cycles * scale,
            registers: report.registers.unwrap_or(OTHER_REGISTERS + in_flight(plan) / 4),
            estimated: false,
        })
    }

    /// Counts from the kernel's program, without a compiler.
    #[must_use]
    pub fn estimate(plan: &Plan) -> Self {
        let counts = count(&body::program(&plan.spec.graph, plan.spec.tier));
        let tensors = plan.spec.element_bytes();
        let around = OTHER_INSTRUCTIONS + PER_TENSOR * tensors.len() as f64;
        let around = Slots { fma: 3.0, alu: 2.0 + 2.0 * tensors.len() as f64, other: around, ..Slots::default() };
        let around = Slots { other: around.other - around.fma - around.alu, ..around };
        let thread = around.plus(counts.thread).plus_times(counts.element, per_thread(plan));
        let accesses: u32 = tensors
            .iter()
            .map(|bytes| plan.spec.unroll * (plan.spec.lanes * bytes).div_ceil(plan.spec.target.widest_access()).max(1))
            .sum();
        let mut instructions = thread.by_pipe();
        instructions.insert(Pipe::Lsu, f64::from(accesses));
        *instructions.entry(Pipe::Issue).or_default() += f64::from(accesses);
        let serial_cycles = CYCLES_PER_INSTRUCTION * (instructions[&Pipe::Issue] - around.issued()).max(0.0);
        Self { instructions, serial_cycles, registers: OTHER_REGISTERS + in_flight(plan) / 4, estimated: true }
    }
}

/// Elements per thread.
fn per_thread(plan: &Plan) -> f64 {
    f64::from(plan.spec.lanes * plan.spec.unroll)
}

/// Bytes of loads that a thread has in flight at once.
fn in_flight(plan: &Plan) -> u32 {
    let graph = &plan.spec.graph;
    let read = graph.inputs().iter().zip(graph.reads()).filter(|(_, read)| *read);
    let element: u64 = read.map(|(input, _)| input.dtype.bytes()).sum();
    plan.spec.lanes * plan.spec.unroll * element as u32
}

/// One launch of a plan whose threads run `code`. `traffic` is the bytes it must move, `cache` the state of the cache before.
#[must_use]
pub fn describe(
    plan: &Plan,
    code: &Code,
    device: &Device,
    traffic: Traffic,
    (cache, launch): (Cache, LaunchForm),
) -> Description {
    let geometry = plan.geometry();
    let threads = geometry.threads.max(1);
    let by_registers = REGISTERS / (code.registers.next_multiple_of(8).max(16) * threads);
    let warps = plan.elements as f64 / per_thread(plan).max(1.0) / 32.0;
    Description {
        traffic,
        footprint: traffic.total(),
        cache,
        launch,
        prefetched: plan.spec.prefetch,
        signals: signals(plan, device),
        blocks: u64::from(geometry.blocks),
        threads,
        resident: device.resident(threads).min(by_registers).max(1),
        in_flight: in_flight(plan),
        instructions: code.instructions.iter().map(|(pipe, count)| (*pipe, count * warps)).collect(),
        serial_cycles: code.serial_cycles,
    }
}

/// Number of blocks that signal that the next kernel may begin.
fn signals(plan: &Plan, device: &Device) -> u64 {
    let geometry = plan.geometry();
    let blocks = u64::from(geometry.blocks);
    match plan.spec.dependent {
        Dependent::No | Dependent::Exit => 0,
        Dependent::Early | Dependent::Late => blocks,
        Dependent::Start | Dependent::Tail => blocks.min(device.wave(geometry.threads)),
    }
}

/// One launch of a probe's kernel over `n` elements of each array. `footprint` is the bytes that successive launches reuse.
/// Counts only the load and store instructions; a probe that counts others adds them.
///
/// # Errors
/// Those of [`KernelDesc::geometry`].
pub fn describe_kernel(
    kernel: &KernelDesc,
    n: u64,
    machine: Machine,
    (cache, footprint): (Cache, u64),
    launch: LaunchForm,
) -> Result<Description, Fault> {
    let geometry = kernel.geometry(n, machine)?;
    let traffic = kernel.traffic(n);
    let warp_bytes = 32.0 * f64::from(kernel.vector_bytes.max(1));
    let accesses = traffic.total() as f64 / warp_bytes;
    Ok(Description {
        traffic,
        footprint,
        cache,
        launch,
        prefetched: false,
        signals: 0,
        blocks: u64::from(geometry.blocks),
        threads: geometry.threads,
        resident: (machine.threads_per_multiprocessor / geometry.threads.max(1)).clamp(1, MOST_RESIDENT),
        in_flight: if kernel.inputs > 0 { kernel.bytes_in_flight() } else { 0 },
        instructions: BTreeMap::from([(Pipe::Issue, accesses), (Pipe::Lsu, accesses)]),
        serial_cycles: 0.0,
    })
}

#[cfg(test)]
mod tests {
    use plimsoll_core::model::Kind;
    use plimsoll_expr::{DType, Names, Problem, Space, parse};

    use super::*;
    use crate::Target;
    use crate::elementwise::{Choose, Indexing, Table, Tier, plan};
    use crate::sass::{Listing, Report};

    const DEVICE: Device = Device {
        target: Target::plain(90),
        multiprocessors: 132,
        threads_per_multiprocessor: 2048,
        l2_bytes: 50 << 20,
    };

    fn planned(text: &str, dtype: DType, elements: u64) -> (Plan, Traffic) {
        chosen(text, dtype, elements, &Choose::default())
    }

    fn chosen(text: &str, dtype: DType, elements: u64, choose: &Choose) -> (Plan, Traffic) {
        let names = Names { default: Some(dtype), ..Names::default() };
        let problem = Problem::flat(&parse(text, &names).unwrap(), elements, &[]).unwrap();
        let layouts: Vec<_> = problem.inputs().iter().cloned().chain([problem.output(0).unwrap()]).collect();
        let space = Space::with_shape(problem.shape(), &layouts).unwrap();
        let indexing = Indexing::new(problem.graph(), &space, &vec![0; layouts.len()]).unwrap();
        let plan = plan(problem.graph(), &indexing, &DEVICE, &Table::default(), choose).unwrap();
        (plan, problem.traffic())
    }

    #[test]
    fn description_has_the_bytes_blocks_and_loads_of_the_plan() {
        let (plan, traffic) = planned("x + y", DType::F32, 1 << 24);
        let code = Code::estimate(&plan);
        let description = describe(&plan, &code, &DEVICE, traffic, (Cache::Cold, LaunchForm::Graph));
        assert_eq!(description.traffic, Traffic::new(1 << 27, 1 << 26));
        assert_eq!(description.blocks, u64::from(plan.geometry().blocks));
        assert_eq!(description.in_flight, 8 * plan.spec.lanes * plan.spec.unroll);
        assert!(description.resident >= 1 && description.resident * description.threads <= 2048);
        // At least the addition and three accesses of each warp.
        assert!(description.instructions[&Pipe::Issue] > (1 << 24) as f64 / 32.0);
    }

    #[test]
    fn dependent_launches_signal_from_one_wave_or_from_all_blocks() {
        for release in Dependent::ALL {
            let dependent = !matches!(release, Dependent::No | Dependent::Exit);
            let choose = Choose { dependent, release: Some(release), ..Choose::default() };
            let (plan, traffic) = chosen("x + y", DType::F32, 1 << 26, &choose);
            let code = Code::estimate(&plan);
            let found = describe(&plan, &code, &DEVICE, traffic, (Cache::Cold, LaunchForm::GraphDependent));
            let expected = match release {
                Dependent::No | Dependent::Exit => 0,
                Dependent::Early | Dependent::Late => found.blocks,
                Dependent::Start | Dependent::Tail => DEVICE.wave(found.threads),
            };
            assert_eq!(found.signals, expected, "{release:?}");
            assert!(found.blocks > DEVICE.wave(found.threads));
        }
    }

    #[test]
    fn functions_cost_more_than_arithmetic_and_double_precision_uses_its_own_pipe() {
        let count = |text, dtype, pipe| {
            let (plan, _) = planned(text, dtype, 1 << 20);
            let code = Code::estimate(&plan);
            code.instructions.get(&pipe).copied().unwrap_or(0.0) / per_thread(&plan)
        };
        assert!(count("erf(x)", DType::F32, Pipe::Issue) > 2.0 * count("x + 1", DType::F32, Pipe::Issue));
        assert!(count("erf(x)", DType::Bf16, Pipe::Issue) < count("erf(x)", DType::F32, Pipe::Issue));
        assert!(count("erf(x)", DType::F32, Pipe::Mufu) > 0.0);
        let (mut full, _) = planned("erf(x)", DType::Bf16, 1 << 20);
        full.spec.tier = Tier::Full;
        let issued = Code::estimate(&full).instructions[&Pipe::Issue] / per_thread(&full);
        assert!(issued > 1.5 * count("erf(x)", DType::Bf16, Pipe::Issue));
        assert!(count("x * x", DType::F64, Pipe::Fp64) >= 1.0 && count("x * x", DType::F64, Pipe::Fma) < 3.0);
    }

    #[test]
    fn machine_code_counts_only_if_it_is_that_of_a_whole_tile() {
        let (plan, traffic) = chosen("x + 1", DType::F32, 1 << 24, &Choose { unroll: Some(1), ..Choose::default() });
        let read = |load: &str, store: &str| {
            let lines = [load, "FADD R8, R4, 1", store, "@P0 BRA 0x0"];
            let lines = lines.iter().enumerate().map(|(at, line)| format!("/*{:04x}*/ {line} ;\n", at * 16));
            let listing = format!(".section .text.k\n{}", lines.collect::<String>());
            let report = Report::new(&Listing::parse(&listing).unwrap(), &[]);
            Code::from_report(&report.kernels[0], &plan, traffic)
        };
        let tile = read("LDG.E.128 R4, [R2.64]", "STG.E.128 [R2.64], R4").unwrap();
        assert_eq!(tile.instructions[&Pipe::Issue], 4.0);
        // The loop over the elements at the end of the data.
        assert_eq!(read("LDG.E R4, [R2.64]", "STG.E [R2.64], R4"), None);
    }

    #[test]
    fn a_large_copy_is_memory_bound() {
        let (plan, traffic) = planned("x", DType::F32, 1 << 28);
        let description = describe(&plan, &Code::estimate(&plan), &DEVICE, traffic, (Cache::Cold, LaunchForm::Graph));
        let mut machine = plimsoll_core::model::Machine::new("one");
        let term = |value| plimsoll_core::model::Term::exact(value, "test");
        use plimsoll_core::model::{Key, Level, Mix, predict};
        machine.insert(Key::Launch(LaunchForm::Graph), term(1e-6));
        for (level, bandwidth) in [(Level::L2, 8e12), (Level::Memory, 4e12)] {
            machine.insert(Key::Bandwidth(level, Mix { read: 1, written: 1 }), term(bandwidth));
        }
        assert_eq!(predict(&description, &machine).limiter, Some(Kind::Memory));
        machine.insert(Key::Clock, term(2e9));
        machine.insert(Key::Multiprocessors, term(132.0));
        machine.insert(Key::Rate(Pipe::Issue), term(4.0));
        let issue = predict(&description, &machine).part(Kind::Pipe(Pipe::Issue)).unwrap().seconds.value;
        assert!(issue > 0.0 && issue < 4e-4, "{issue}");
    }
}
