//! Predicts the cost of an expression on a machine that need not be present: the plan, the instructions of its kernel (from
//! machine code if the compiler and disassembler are installed, else rough counts), and the model's terms. For every machine of the
//! catalogue there is a lower bound ([`bound_problem`]).

mod bound;

use std::collections::HashMap;

use plimsoll_core::Traffic;
use plimsoll_core::model::{Cache, Description, Key, LaunchForm, Machine, Prediction, predict};
use plimsoll_cuda::compile::Program;
use plimsoll_cuda::disassembler::Disassembler;
use plimsoll_cuda::machine_code::{MachineCodeError, from_cubin};
use plimsoll_cuda::nvrtc::Nvrtc;
use plimsoll_expr::{Problem, Space};
use plimsoll_gen::Target;
use plimsoll_gen::describe::{Code, describe};
use plimsoll_gen::elementwise::{Dependent, Device, Indexing, KernelSpec, PlanError, Table, generate, plan};
use plimsoll_gen::kernel::OPTIONS;
use plimsoll_gen::sass::KernelReport;
use plimsoll_suite::machines::{self, LookupError};
use plimsoll_suite::model::Chip;
use plimsoll_suite::profile::Profile;

pub use bound::{Bound, BoundPart, Limit, Operations, Work, bound_problem, find_sheet};
pub use plimsoll_core::model;
pub use plimsoll_gen::elementwise::{Choose, Plan};

/// Resident threads per SM, in general, for compute capability 8.6, 8.9 and 12.0, and for 7.5.
const THREADS: u32 = 2048;
const THREADS_86: u32 = 1536;
const THREADS_75: u32 = 1024;

/// A machine from the catalogue or a profile, as the planner and the model know it.
#[derive(Clone, Debug)]
pub struct KnownMachine {
    /// The properties that plans depend on.
    pub device: Device,
    /// The figures that costs depend on.
    pub machine: Machine,
    /// Measured plans for this model; without an entry the planner's rules apply.
    pub table: Table,
}

/// Why a machine can't be predicted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KnownMachineError {
    /// The name is unknown or ambiguous.
    #[error(transparent)]
    Lookup(#[from] LookupError),
    /// A machine for which no kernels can be planned.
    #[error(
        "{0} runs no CUDA kernels, or its number of SMs or its clock isn't published: kernels can't be planned for it"
    )]
    NotCuda(&'static str),
}

/// Finds the machine with this name: `h200`, `A100 40GB`, `V100`.
///
/// # Errors
/// If the name is unknown or ambiguous, or the machine can't be predicted.
pub fn find_machine(name: &str) -> Result<KnownMachine, KnownMachineError> {
    let machine = plimsoll_suite::model::of_machine(name)?;
    let sheet = machines::machine(&machine.name)?;
    let (device, _) = chip(sheet)?;
    Ok(KnownMachine { device, table: table(sheet, device), machine })
}

/// The machine of a profile. It uses only the measured figures, except for published instruction rates. The number of SMs and the
/// clock come from the catalogue.
///
/// # Errors
/// As for [`find_machine`], for the profile's device name.
pub fn from_profile(profile: &Profile) -> Result<KnownMachine, KnownMachineError> {
    let sheet = machines::machine(&profile.device_name)?;
    let (device, chip) = chip(sheet)?;
    let machine = plimsoll_suite::model::of_profile(&profile.device_name, chip, profile);
    Ok(KnownMachine { device, table: table(sheet, device), machine })
}

fn table(sheet: &machines::Machine, device: Device) -> Table {
    Table::for_device(&format!("NVIDIA {}", sheet.name), device.target.capability)
}

fn chip(sheet: &'static machines::Machine) -> Result<(Device, Chip), KnownMachineError> {
    let (Some((major, minor)), Some(multiprocessors), Some(clock_hz)) =
        (sheet.compute_capability, sheet.multiprocessors, sheet.boost_clock_hz)
    else {
        return Err(KnownMachineError::NotCuda(sheet.name));
    };
    let capability = 10 * u32::from(major) + u32::from(minor);
    let device = Device {
        target: Target::plain(capability),
        multiprocessors,
        threads_per_multiprocessor: match capability {
            75 => THREADS_75,
            86 | 89 | 120 => THREADS_86,
            _ => THREADS,
        },
        l2_bytes: sheet.l2_bytes.unwrap_or_default(),
    };
    Ok((device, Chip { multiprocessors, clock_hz, capability }))
}

impl KnownMachine {
    /// The default launch form: in a graph, or in a stream if only figures for streams are known.
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

/// The compiler and disassembler, for exact instruction counts.
#[derive(Clone, Copy, Debug)]
pub struct Tools<'a> {
    /// The compiler.
    pub nvrtc: &'a Nvrtc,
    /// The disassembler.
    pub disassembler: &'a Disassembler,
}

/// A prediction and its basis.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The plan.
    pub plan: Plan,
    /// The work of one launch.
    pub description: Description,
    /// Whether instruction counts are rough estimates.
    pub estimated: bool,
    /// The cost.
    pub prediction: Prediction,
}

/// Predicts expressions on one machine. Kernels that differ only in sizes are compiled once.
pub struct Predictor<'a> {
    known: &'a KnownMachine,
    tools: Option<Tools<'a>>,
    /// Compiled kernels; `None` for those that the tools can't compile or read.
    codes: HashMap<KernelSpec, Option<KernelReport>>,
}

impl<'a> Predictor<'a> {
    /// A predictor for `known`. Without `tools`, or if they don't support the machine's target, instruction counts are rough
    /// estimates.
    #[must_use]
    pub fn new(known: &'a KnownMachine, tools: Option<Tools<'a>>) -> Self {
        Self { known, tools, codes: HashMap::new() }
    }

    /// Predicts the cost of an expression on aligned memory.
    ///
    /// # Errors
    /// If there is no plan.
    pub fn predict(
        &mut self,
        problem: &Problem,
        choose: &Choose,
        (cache, launch): (Cache, LaunchForm),
    ) -> Result<Outcome, PlanError> {
        let plan = plan_problem(self.known, problem, choose)?;
        let traffic = problem.traffic();
        let code = self.code(&plan, traffic).unwrap_or_else(|| Code::estimate(&plan));
        let KnownMachine { device, machine, .. } = self.known;
        let description = describe(&plan, &code, device, traffic, (cache, actual_launch(&plan, launch, machine)));
        let prediction = predict(&description, machine);
        let plan = plan.with_prediction(&prediction);
        Ok(Outcome { plan, description, estimated: code.estimated, prediction })
    }

    fn code(&mut self, plan: &Plan, traffic: Traffic) -> Option<Code> {
        let tools = self.tools?;
        let found = self.codes.entry(plan.spec.clone()).or_insert_with(|| compile(tools, plan).ok());
        Code::from_report(found.as_ref()?, plan, traffic)
    }
}

/// Predicts the cost of one expression; see [`Predictor::predict`].
///
/// # Errors
/// If there is no plan.
pub fn predict_problem(
    known: &KnownMachine,
    problem: &Problem,
    choose: &Choose,
    form: (Cache, LaunchForm),
    tools: Option<Tools<'_>>,
) -> Result<Outcome, PlanError> {
    Predictor::new(known, tools).predict(problem, choose, form)
}

fn plan_problem(known: &KnownMachine, problem: &Problem, choose: &Choose) -> Result<Plan, PlanError> {
    let graph = problem.graph();
    let outputs = (0..graph.outputs().len()).map(|place| problem.output(place)).collect::<Result<Vec<_>, _>>()?;
    let layouts: Vec<_> = problem.inputs().iter().cloned().chain(outputs).collect();
    let space = Space::with_shape(problem.shape(), &layouts)?;
    let inputs = graph.inputs().iter().map(|input| input.dtype.bytes());
    let bytes = inputs.chain(graph.outputs().iter().map(|output| output.dtype.bytes()));
    let starts: Vec<u64> = layouts.iter().zip(bytes).map(|(layout, bytes)| layout.offset() * bytes).collect();
    plan(graph, &Indexing::new(graph, &space, &starts)?, &known.device, &known.table, choose)
}

/// The launch form of a plan in a graph. A plan with [`Dependent::Exit`] counts as [`LaunchForm::GraphExit`] if that was measured
/// hot and cold, else as an ordinary graph launch. Streams are unchanged: nothing was measured for them.
fn actual_launch(plan: &Plan, launch: LaunchForm, machine: &Machine) -> LaunchForm {
    let graph = matches!(launch, LaunchForm::Graph | LaunchForm::GraphDependent);
    if !graph || plan.spec.dependent != Dependent::Exit {
        return launch;
    }
    let keys = [Key::Launch(LaunchForm::GraphExit), Key::ColdLaunch(LaunchForm::GraphExit)];
    let known = keys.iter().all(|key| machine.terms.contains_key(key));
    if known { LaunchForm::GraphExit } else { LaunchForm::Graph }
}

fn compile(tools: Tools<'_>, plan: &Plan) -> Result<KernelReport, MachineCodeError> {
    let (text, target, options) = (generate(&plan.spec), plan.spec.target.to_string(), OPTIONS.map(str::to_owned));
    let headers = text.headers;
    let program = Program { name: "elementwise.cu", source: &text.text, headers, options: &options, target: &target };
    let cubin = tools.nvrtc.compile(&program)?.cubin;
    let report = from_cubin(tools.disassembler, cubin)?.report;
    report.kernel(text.entry).cloned().ok_or(MachineCodeError::Unreadable(plimsoll_gen::sass::SassError::NoFunction))
}

#[cfg(test)]
mod tests {
    use plimsoll_core::model::Kind;
    use plimsoll_expr::{DType, Names, parse};

    use super::*;

    fn predict_text(machine: &str, text: &str, dtype: DType, bytes: u64, cache: Cache) -> Outcome {
        let known = find_machine(machine).unwrap();
        let names = Names { default: Some(dtype), ..Names::default() };
        let graph = parse(text, &names).unwrap();
        let problem = Problem::flat(&graph, bytes / dtype.bytes(), &[]).unwrap();
        let launch = known.launch(false);
        predict_problem(&known, &problem, &Choose::default(), (cache, launch), None).unwrap()
    }

    #[test]
    fn large_sums_are_limited_by_memory_and_small_ones_by_the_launch() {
        let large = predict_text("h200", "x + 1", DType::F32, 1 << 30, Cache::Cold);
        assert_eq!(large.prediction.limiter, Some(Kind::Memory));
        let total = large.prediction.total.unwrap().value;
        // 2 GiB at 4.26 TB/s.
        assert!((total / 504e-6 - 1.0).abs() < 0.03, "{total}");
        assert_eq!(predict_text("h200", "x + 1", DType::F32, 4096, Cache::Hot).prediction.limiter, Some(Kind::Launch));
    }

    #[test]
    fn published_machines_have_a_total_and_a_default_launch_form() {
        for name in ["A100 40GB", "A100 80GB", "H100 PCIe", "H100 SXM", "L4", "A10", "V100"] {
            let known = find_machine(name).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(known.launch(false), LaunchForm::Stream, "{name}");
            let predicted = predict_text(name, "x + 1", DType::F32, 1 << 28, Cache::Cold).prediction;
            assert!(predicted.total.is_some(), "{name}: {:?}", predicted.missing);
        }
        assert_eq!(find_machine("H200").unwrap().launch(false), LaunchForm::Graph);
        assert_eq!(find_machine("H200").unwrap().launch(true), LaunchForm::GraphDependent);
    }

    #[test]
    fn the_a100_l2_puzzle_is_reproduced_for_expressions() {
        let apparent_bandwidth = |dtype, mib: u64| {
            let predicted = predict_text("A100 40GB", "x + 42", dtype, mib << 19, Cache::Hot).prediction;
            (mib << 20) as f64 / predicted.total.unwrap().value
        };
        assert!(apparent_bandwidth(DType::Bf16, 12) < apparent_bandwidth(DType::F32, 24));
        assert!(apparent_bandwidth(DType::Bf16, 24) > apparent_bandwidth(DType::F32, 48));
    }

    #[test]
    fn predictions_from_a_profile_name_the_missing_figures() {
        let mut profile = plimsoll_suite::profile::shipped::of_machine("H200").unwrap().unwrap();
        profile.findings.retain(|stored| !stored.is_published() && stored.finding.probe != "loaded-latency");
        let names = Names { default: Some(DType::F32), ..Names::default() };
        let problem = Problem::flat(&parse("x + 1", &names).unwrap(), 1 << 24, &[]).unwrap();
        let form = (Cache::Cold, LaunchForm::Graph);
        let predict = |profile: &Profile| {
            predict_problem(&from_profile(profile).unwrap(), &problem, &Choose::default(), form, None)
                .unwrap()
                .prediction
        };
        let missing: Vec<Key> = predict(&profile).missing.iter().map(|missing| missing.key).collect();
        assert_eq!(missing, [Key::LatencyFull]);
        profile.findings.retain(|stored| stored.finding.probe != "launch");
        assert_eq!(predict(&profile).total, None);
    }

    #[test]
    fn plain_launches_use_graph_exit_where_it_was_measured() {
        let mut known = find_machine("H200").unwrap();
        let problem = Problem::flat(&parse("x + 1", &Names::with_default(DType::F32)).unwrap(), 1 << 18, &[]).unwrap();
        let predict_with = |known: &KnownMachine, release| {
            let choose = Choose { release, ..Choose::default() };
            predict_problem(known, &problem, &choose, (Cache::Cold, LaunchForm::Graph), None).unwrap()
        };
        let dependent = |known: &KnownMachine| {
            let choose = Choose { dependent: true, release: Some(Dependent::Exit), ..Choose::default() };
            let form = (Cache::Cold, LaunchForm::GraphDependent);
            predict_problem(known, &problem, &choose, form, None).unwrap().description.launch
        };
        for key in [Key::Launch, Key::ColdLaunch] {
            let graph = known.machine.terms[&key(LaunchForm::Graph)].value;
            known.machine.terms.insert(key(LaunchForm::GraphExit), model::Term::exact(graph - 0.2e-6, "test"));
        }
        let (plain, ordinary) = (predict_with(&known, None), predict_with(&known, Some(Dependent::No)));
        let launches = [&plain, &ordinary].map(|outcome| outcome.description.launch);
        assert_eq!(launches, [LaunchForm::GraphExit, LaunchForm::Graph]);
        let saved = ordinary.prediction.total.unwrap().value - plain.prediction.total.unwrap().value;
        assert!((saved / 0.2e-6 - 1.0).abs() < 0.01, "{saved}");
        assert_eq!(dependent(&known), LaunchForm::GraphExit);
        known.machine.terms.remove(&Key::ColdLaunch(LaunchForm::GraphExit));
        assert_eq!(
            (predict_with(&known, None).description.launch, dependent(&known)),
            (LaunchForm::Graph, LaunchForm::Graph)
        );
    }

    #[test]
    fn machines_without_cuda_are_refused() {
        assert!(matches!(find_machine("MI300X"), Err(KnownMachineError::NotCuda(_))));
        assert!(matches!(find_machine("no such card"), Err(KnownMachineError::Lookup(_))));
    }
}
