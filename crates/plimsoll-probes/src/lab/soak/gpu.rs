//! soak on a GPU: the fastest bf16 matrix product of `tensor` on random numbers, which draws the most power of all kernels here, over and
//! over. One iteration is checked against the oracle of `tensor`; all launches must leave the bits of the first.

use crate::lab::soak::{Window, over_time, sample_length, windows};
use crate::meter::Metered;
use crate::prelude::gpu::*;
use crate::tensor::gpu::{Bench, Spot, dense};
use crate::tensor::kernels::{self, Instruction, Number};
use crate::tensor::oracle::Data;

fn candidates<G: Gpu>(device: &G::Device) -> Vec<&'static Instruction> {
    dense::<G>(device).into_iter().filter(|instruction| instruction.number == Number::Bf16).collect()
}

fn missing() -> Fault {
    Fault::Unavailable {
        what: "soak",
        why: "the device has no matrix products of bf16".to_owned(),
        hint: "Use a GPU of compute capability 8.0 or later".to_owned(),
    }
}

/// The fastest bf16 product of a device.
pub(crate) fn choose<G: Gpu>(bench: &Bench<G>, device: &G::Device) -> Result<Spot, Fault> {
    bench.fastest(&candidates::<G>(device), Data::Random)?.ok_or_else(missing)
}

impl<G: Gpu> Run<G> for super::GpuRunner {
    const NEEDS: &'static [Need] = &[Need::Code(&kernels::SOURCE), Need::KernelClock, Need::Graphs];

    fn check_device(&self, device: &G::Device) -> Result<(), Fault> {
        if candidates::<G>(device).is_empty() { Err(missing()) } else { Ok(()) }
    }

    fn points(&self, _: &G::Device, request: &Request) -> usize {
        super::count(request)
    }

    fn run(&self, session: &mut Session<'_, G>) -> Result<(), Fault> {
        let bench = Bench::<G>::new(session.device)?;
        let spot = choose(&bench, session.device)?;
        let (first, wrong) = bench.remember(spot)?;
        let wrong = wrong.map(|wrong| format!("{}, the first launch: {wrong}", spot.kernel_name()));
        let windows = windows(session.budget());
        let length = sample_length(session.budget(), session.request.effort);
        let meter = G::meter(session.device);
        let sweep = Sweep { series: over_time(), points: &windows, share: 1.0, flags: Flags::NONE };
        session.sweep(sweep, Window::clone, |_, _| {
            let load = bench.load_again(first)?;
            let load = match wrong.clone() {
                Some(wrong) => load.with_check(move |_| Ok(Check::Failed(wrong.clone()))),
                None => load,
            };
            Ok(Metered::without_clock(load, meter.clone()).steady_for(length))
        })?;
        Ok(())
    }

    fn verify(&self, device: &mut G::Device, _: Depth, report: &mut dyn FnMut(Case)) -> Result<(), Fault> {
        let bench = Bench::<G>::new(device)?;
        let spot = choose(&bench, device)?;
        let (first, wrong) = bench.remember(spot)?;
        let wrong = wrong.map_or_else(|| bench.run_again(first), |wrong| Ok(Check::Failed(wrong)))?;
        report(Case::new(spot.kernel_name(), "the same launch twice", wrong));
        Ok(())
    }
}
