//! What an expression should cost on a machine, without that machine: its plan, the instructions of the plan's kernel (from
//! machine code where the tools are at hand, else rough counts), and the model's terms.

use std::collections::HashMap;

use plimsoll_core::Traffic;
use plimsoll_core::model::{Cache, Description, Key, LaunchForm, Machine, Prediction, predict};
use plimsoll_cuda::compile::Program;
use plimsoll_cuda::disassembler::Disassembler;
use plimsoll_cuda::machine_code::{MachineCodeError, of_cubin};
use plimsoll_cuda::nvrtc::Nvrtc;
use plimsoll_expr::{Problem, Space};
use plimsoll_gen::Target;
use plimsoll_gen::describe::{Code, describe};
use plimsoll_gen::elementwise::{Dependent, Device, KernelSpec, PlanError, Table, Walk, generate, plan};
use plimsoll_gen::kernel::OPTIONS;
use plimsoll_gen::sass::KernelReport;
use plimsoll_suite::machines::{self, LookupError};
use plimsoll_suite::model::Chip;
use plimsoll_suite::profile::Profile;

pub use plimsoll_core::model;
pub use plimsoll_gen::elementwise::{Choose, Plan};

/// Threads that a multiprocessor holds, and those that one of compute capability 8.6 or 8.9 does.
const THREADS: u32 = 2048;
const THREADS_86: u32 = 1536;

/// A machine of the catalogue, as the planner and as the model know it.
#[derive(Clone, Debug)]
pub struct Known {
    /// For plans.
    pub device: Device,
    /// For costs.
    pub machine: Machine,
    /// Measured plans of such a device; the planner's rule where there are none.
    pub table: Table,
}

/// Why a machine can't be predicted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KnownError {
    /// The name.
    #[error(transparent)]
    Lookup(#[from] LookupError),
    /// A machine that kernels are not planned for.
    #[error("{0} runs no CUDA kernels, or nobody published its multiprocessors: there is no plan for it")]
    NotCuda(&'static str),
}

/// The machine of this name: `h200`, `A100 40GB`, `V100`.
///
/// # Errors
/// [`KnownError`].
pub fn known(name: &str) -> Result<Known, KnownError> {
    let machine = plimsoll_suite::model::of_machine(name)?;
    let sheet = machines::machine(&machine.name)?;
    let (device, _) = chip(sheet)?;
    Ok(Known { device, table: table(sheet, device), machine })
}

/// The device of a profile: what was found about it, and nothing that others published but rates of instructions. Multiprocessors
/// and clock are the catalogue's for its name.
///
/// # Errors
/// [`KnownError`], of the device's name.
pub fn of_profile(profile: &Profile) -> Result<Known, KnownError> {
    let sheet = machines::machine(&profile.device_name)?;
    let (device, chip) = chip(sheet)?;
    let machine = plimsoll_suite::model::of_profile(&profile.device_name, chip, profile);
    Ok(Known { device, table: table(sheet, device), machine })
}

fn table(sheet: &machines::Machine, device: Device) -> Table {
    Table::for_device(&format!("NVIDIA {}", sheet.name), device.target.capability)
}

fn chip(sheet: &'static machines::Machine) -> Result<(Device, Chip), KnownError> {
    let (Some((major, minor)), Some(multiprocessors), Some(clock_hz)) =
        (sheet.compute_capability, sheet.multiprocessors, sheet.boost_clock_hz)
    else {
        return Err(KnownError::NotCuda(sheet.name));
    };
    let capability = 10 * u32::from(major) + u32::from(minor);
    let device = Device {
        target: Target::plain(capability),
        multiprocessors,
        threads_per_multiprocessor: if matches!(capability, 86 | 89) { THREADS_86 } else { THREADS },
        l2_bytes: sheet.l2_bytes.unwrap_or_default(),
    };
    Ok((device, Chip { multiprocessors, clock_hz, capability }))
}

impl Known {
    /// A device with the machine that it is known as.
    #[must_use]
    pub fn of_device(device: Device, machine: Machine, table: Table) -> Self {
        Self { device, machine, table }
    }

    /// How launches are taken to follow each other where nobody says: in a graph, or in a stream where only that is known.
    #[must_use]
    pub fn launch(&self, dependent: bool) -> LaunchForm {
        let knows = |form: &LaunchForm| self.machine.terms.contains_key(&Key::Launch(*form));
        let [graph, stream] = match dependent {
            false => [LaunchForm::Graph, LaunchForm::Stream],
            true => [LaunchForm::GraphDependent, LaunchForm::StreamDependent],
        };
        if !knows(&graph) && knows(&stream) { stream } else { graph }
    }
}

/// Compiler and disassembler, for exact counts of instructions.
#[derive(Clone, Copy, Debug)]
pub struct Tools<'a> {
    /// The compiler.
    pub nvrtc: &'a Nvrtc,
    /// The disassembler.
    pub disassembler: &'a Disassembler,
}

/// What was predicted, and from what.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The plan.
    pub plan: Plan,
    /// What a launch of it does.
    pub description: Description,
    /// True where instructions are rough counts.
    pub estimated: bool,
    /// The cost.
    pub prediction: Prediction,
}

/// Predicts expressions on one machine. Kernels that differ in nothing but sizes are compiled once.
pub struct Predictor<'a> {
    known: &'a Known,
    tools: Option<Tools<'a>>,
    /// `None` of kernels that the tools can't compile or read.
    codes: HashMap<KernelSpec, Option<KernelReport>>,
}

impl<'a> Predictor<'a> {
    /// Without `tools`, or where they don't know the machine's target, instructions are rough counts.
    #[must_use]
    pub fn new(known: &'a Known, tools: Option<Tools<'a>>) -> Self {
        Self { known, tools, codes: HashMap::new() }
    }

    /// The cost of an expression on aligned memory.
    ///
    /// # Errors
    /// Where there is no plan.
    pub fn of(
        &mut self,
        problem: &Problem,
        choose: &Choose,
        (cache, launch): (Cache, LaunchForm),
    ) -> Result<Outcome, PlanError> {
        let plan = planned(self.known, problem, choose)?;
        let traffic = problem.traffic();
        let code = self.code(&plan, traffic).unwrap_or_else(|| Code::estimated(&plan));
        let Known { device, machine, .. } = self.known;
        let description = describe(&plan, &code, device, traffic, (cache, follows(&plan, launch, machine)));
        let prediction = predict(&description, machine);
        let plan = plan.expecting(&prediction);
        Ok(Outcome { plan, description, estimated: code.estimated, prediction })
    }

    fn code(&mut self, plan: &Plan, traffic: Traffic) -> Option<Code> {
        let tools = self.tools?;
        let found = self.codes.entry(plan.spec.clone()).or_insert_with(|| compiled(tools, plan).ok());
        Code::read(found.as_ref()?, plan, traffic)
    }
}

/// The cost of one expression: [`Predictor::of`].
///
/// # Errors
/// Where there is no plan.
pub fn of_problem(
    known: &Known,
    problem: &Problem,
    choose: &Choose,
    form: (Cache, LaunchForm),
    tools: Option<Tools<'_>>,
) -> Result<Outcome, PlanError> {
    Predictor::new(known, tools).of(problem, choose, form)
}

fn planned(known: &Known, problem: &Problem, choose: &Choose) -> Result<Plan, PlanError> {
    let graph = problem.graph();
    let outputs = (0..graph.outputs().len()).map(|place| problem.output(place)).collect::<Result<Vec<_>, _>>()?;
    let layouts: Vec<_> = problem.inputs().iter().cloned().chain(outputs).collect();
    let space = Space::of(problem.shape(), &layouts)?;
    let inputs = graph.inputs().iter().map(|input| input.dtype.bytes());
    let bytes = inputs.chain(graph.outputs().iter().map(|output| output.dtype.bytes()));
    let starts: Vec<u64> = layouts.iter().zip(bytes).map(|(layout, bytes)| layout.offset() * bytes).collect();
    plan(graph, &Walk::new(graph, &space, &starts)?, &known.device, &known.table, choose)
}

/// How a plan's launches follow each other in a graph: those that begin when the blocks before have ended are a way of their own, where it
/// was measured, hot and cold, what that saves, and ordinary ones elsewhere. Of streams nothing of it is known.
fn follows(plan: &Plan, launch: LaunchForm, machine: &Machine) -> LaunchForm {
    let graph = matches!(launch, LaunchForm::Graph | LaunchForm::GraphDependent);
    if !graph || plan.spec.dependent != Dependent::Exit {
        return launch;
    }
    let keys = [Key::Launch(LaunchForm::GraphExit), Key::ColdLaunch(LaunchForm::GraphExit)];
    let known = keys.iter().all(|key| machine.terms.contains_key(key));
    if known { LaunchForm::GraphExit } else { LaunchForm::Graph }
}

fn compiled(tools: Tools<'_>, plan: &Plan) -> Result<KernelReport, MachineCodeError> {
    let (text, target, options) = (generate(&plan.spec), plan.spec.target.to_string(), OPTIONS.map(str::to_owned));
    let headers = text.headers;
    let program = Program { name: "elementwise.cu", source: &text.text, headers, options: &options, target: &target };
    let cubin = tools.nvrtc.compile(&program)?.cubin;
    let report = of_cubin(tools.disassembler, cubin)?.report;
    report.kernel(text.entry).cloned().ok_or(MachineCodeError::Unreadable(plimsoll_gen::sass::SassError::NoFunction))
}

#[cfg(test)]
mod tests {
    use plimsoll_core::model::Kind;
    use plimsoll_expr::{DType, Names, parse};

    use super::*;

    fn outcome(machine: &str, text: &str, dtype: DType, bytes: u64, cache: Cache) -> Outcome {
        let known = known(machine).unwrap();
        let names = Names { default: Some(dtype), ..Names::default() };
        let graph = parse(text, &names).unwrap();
        let problem = Problem::flat(&graph, bytes / dtype.bytes(), &[]).unwrap();
        let launch = known.launch(false);
        of_problem(&known, &problem, &Choose::default(), (cache, launch), None).unwrap()
    }

    #[test]
    fn large_sums_are_bound_by_memory_and_small_ones_by_the_launch() {
        let large = outcome("h200", "x + 1", DType::F32, 1 << 30, Cache::Cold);
        assert_eq!(large.prediction.limiter, Some(Kind::Memory));
        let total = large.prediction.total.unwrap().value;
        // 2 GiB at 4.26 TB/s.
        assert!((total / 504e-6 - 1.0).abs() < 0.03, "{total}");
        assert_eq!(outcome("h200", "x + 1", DType::F32, 4096, Cache::Hot).prediction.limiter, Some(Kind::Launch));
    }

    #[test]
    fn every_machine_that_is_known_by_publications_gives_a_total_and_says_how_it_is_launched() {
        for name in ["A100 40GB", "A100 80GB", "H100 PCIe", "H100 SXM", "L4", "A10", "V100"] {
            let known = known(name).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(known.launch(false), LaunchForm::Stream, "{name}");
            let predicted = outcome(name, "x + 1", DType::F32, 1 << 28, Cache::Cold).prediction;
            assert!(predicted.total.is_some(), "{name}: {:?}", predicted.missing);
        }
        assert_eq!(known("H200").unwrap().launch(false), LaunchForm::Graph);
        assert_eq!(known("H200").unwrap().launch(true), LaunchForm::GraphDependent);
    }

    #[test]
    fn the_puzzle_of_the_a100_comes_out_of_expressions_too() {
        let seems = |dtype, mib: u64| {
            let predicted = outcome("A100 40GB", "x + 42", dtype, mib << 19, Cache::Hot).prediction;
            (mib << 20) as f64 / predicted.total.unwrap().value
        };
        assert!(seems(DType::Bf16, 12) < seems(DType::F32, 24));
        assert!(seems(DType::Bf16, 24) > seems(DType::F32, 48));
    }

    #[test]
    fn a_profile_gives_what_it_holds_and_names_what_it_doesn_t() {
        let mut profile = plimsoll_suite::profile::shipped::of_machine("H200").unwrap().unwrap();
        profile.findings.retain(|stored| !stored.is_published() && stored.finding.probe != "loaded-latency");
        let names = Names { default: Some(DType::F32), ..Names::default() };
        let problem = Problem::flat(&parse("x + 1", &names).unwrap(), 1 << 24, &[]).unwrap();
        let form = (Cache::Cold, LaunchForm::Graph);
        let predict = |profile: &Profile| {
            of_problem(&of_profile(profile).unwrap(), &problem, &Choose::default(), form, None).unwrap().prediction
        };
        let wants: Vec<Key> = predict(&profile).missing.iter().map(|missing| missing.key).collect();
        assert_eq!(wants, [Key::LatencyFull]);
        profile.findings.retain(|stored| stored.finding.probe != "launch");
        assert_eq!(predict(&profile).total, None);
    }

    #[test]
    fn plain_launches_are_in_place_where_that_was_measured() {
        let mut known = known("H200").unwrap();
        let problem = Problem::flat(&parse("x + 1", &Names::all(DType::F32)).unwrap(), 1 << 18, &[]).unwrap();
        let of = |known: &Known, release| {
            let choose = Choose { release, ..Choose::default() };
            of_problem(known, &problem, &choose, (Cache::Cold, LaunchForm::Graph), None).unwrap()
        };
        let dependent = |known: &Known| {
            let choose = Choose { dependent: true, release: Some(Dependent::Exit), ..Choose::default() };
            let form = (Cache::Cold, LaunchForm::GraphDependent);
            of_problem(known, &problem, &choose, form, None).unwrap().description.launch
        };
        for key in [Key::Launch, Key::ColdLaunch] {
            let graph = known.machine.terms[&key(LaunchForm::Graph)].value;
            known.machine.terms.insert(key(LaunchForm::GraphExit), model::Term::exact(graph - 0.2e-6, "test"));
        }
        let (plain, ordinary) = (of(&known, None), of(&known, Some(Dependent::No)));
        let launches = [&plain, &ordinary].map(|outcome| outcome.description.launch);
        assert_eq!(launches, [LaunchForm::GraphExit, LaunchForm::Graph]);
        let saved = ordinary.prediction.total.unwrap().value - plain.prediction.total.unwrap().value;
        assert!((saved / 0.2e-6 - 1.0).abs() < 0.01, "{saved}");
        assert_eq!(dependent(&known), LaunchForm::GraphExit);
        known.machine.terms.remove(&Key::ColdLaunch(LaunchForm::GraphExit));
        assert_eq!((of(&known, None).description.launch, dependent(&known)), (LaunchForm::Graph, LaunchForm::Graph));
    }

    #[test]
    fn a_machine_that_runs_no_cuda_is_refused() {
        assert!(matches!(known("MI300X"), Err(KnownError::NotCuda(_))));
        assert!(matches!(known("no such card"), Err(KnownError::Lookup(_))));
    }
}
