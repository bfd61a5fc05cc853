//! `plimsoll soak`: the probe `soak` alone, for as long as the user says.

use super::args::{FleetArgs, MeasureArgs, ProbeChoice, ProfileArg, SoakArgs};
use super::exit::{Exit, Failure};
use super::measure;

pub(crate) fn run(args: &SoakArgs) -> Result<Exit, Failure> {
    measure::run(&MeasureArgs {
        choice: ProbeChoice { probes: vec!["soak".to_owned()], group: vec![] },
        device: args.device.clone(),
        effort: plimsoll::core::sample::Effort::Quick,
        out: args.out.clone(),
        bytes: None,
        seed: args.seed,
        format: args.format,
        trace: false,
        counters: false,
        concurrent: args.concurrent,
        no_report: args.no_report,
        all: true,
        top: None,
        no_plots: args.no_plots,
        quiet: args.quiet,
        profile: ProfileArg::default(),
        no_profile: true,
        fleet: FleetArgs::default(),
        seconds: Some(args.duration),
    })
}
