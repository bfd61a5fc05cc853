//! Loads whose kernels report their clock. For steady loads the device also reports power and temperature. The probe chooses what
//! is launched.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use plimsoll_core::sample::{Batch, Check, Workload};
use plimsoll_core::{Fault, forward_workload};
use plimsoll_gpu::clock::TICK;
use plimsoll_gpu::load::Load;
use plimsoll_gpu::{Gpu, Memory as _, Meter};

use crate::pace::Pace;

/// Length of one sample of a steady load, seconds: thirty of them span many steps of the energy counter.
const STEADY: f64 = 0.025;

/// Where kernels store their clock, and the stream that they run on.
type StoredClock<G> = (Rc<<G as Gpu>::Buffer>, Arc<<G as Gpu>::Stream>);

/// A load whose power may be read between its samples. Its kernels may store their clock: cycles and nanoseconds, 8 bytes each.
pub(crate) struct Metered<G: Gpu> {
    load: Load<G>,
    meter: Option<Arc<dyn Meter>>,
    clock: Option<StoredClock<G>>,
    hertz: Option<f64>,
    /// How a steady load is sampled.
    steady: Option<Pace>,
    begun: Option<Instant>,
    temperature: Option<f64>,
    energy: Energy,
}

/// The first and the latest observed step of the energy counter.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Energy {
    before: Option<f64>,
    first: Option<(f64, f64)>,
    latest: Option<(f64, f64)>,
}

impl Energy {
    /// Adds a reading taken at `seconds`.
    pub(crate) fn read(&mut self, joules: f64, seconds: f64) {
        let stepped = self.before.replace(joules).is_some_and(|before| joules > before);
        if stepped {
            self.first.get_or_insert((joules, seconds));
            self.latest = Some((joules, seconds));
        }
    }

    /// Average power between the two steps, watts.
    pub(crate) fn power(&self) -> Option<f64> {
        let ((low, begin), (high, end)) = (self.first?, self.latest?);
        (end > begin).then(|| (high - low) / (end - begin))
    }
}

impl<G: Gpu> Metered<G> {
    /// A load with its power meter, whose kernels store their clock.
    pub(crate) fn new(load: Load<G>, meter: Option<Arc<dyn Meter>>, clock: StoredClock<G>) -> Self {
        Self { clock: Some(clock), ..Self::without_clock(load, meter) }
    }

    /// A load with its power meter, whose kernels store no clock.
    pub(crate) fn without_clock(load: Load<G>, meter: Option<Arc<dyn Meter>>) -> Self {
        Self {
            load,
            meter,
            clock: None,
            hertz: None,
            steady: None,
            begun: None,
            temperature: None,
            energy: Energy::default(),
        }
    }

    /// Makes samples long enough for the energy counter to advance.
    pub(crate) fn steady(self) -> Self {
        self.steady_for(STEADY)
    }

    /// Makes samples of so many seconds.
    pub(crate) fn steady_for(self, length: f64) -> Self {
        Self { steady: Some(Pace::new(length, TICK)), ..self }
    }

    fn read_meter(&mut self) {
        let (Some(meter), now) = (&self.meter, Instant::now()) else { return };
        if let Some(joules) = meter.joules().filter(|_| self.steady.is_some_and(Pace::is_planned)) {
            let begin = *self.begun.get_or_insert(now);
            self.energy.read(joules, now.duration_since(begin).as_secs_f64());
        }
        self.temperature = meter.temperature();
    }

    /// Long samples of many launches, each divided by its number of launches.
    fn steady_samples(&mut self, mut pace: Pace, out: &mut [u64]) -> Result<(), Fault> {
        let most = self.load.batch().max;
        for sample in out {
            *sample = pace.sample(most, |launches| {
                let mut part = [0];
                self.load.prepare(launches)?;
                self.load.sample(launches, &mut part)?;
                self.read_meter();
                Ok(part[0])
            })?;
            self.steady = Some(pace);
        }
        Ok(())
    }
}

impl<G: Gpu> Workload for Metered<G> {
    forward_workload!(load: work, unjudged, prepare_count, launch_once);

    fn batch(&self) -> Batch {
        if self.steady.is_some() { Batch { cycle: 1, max: 1 } } else { self.load.batch() }
    }

    fn prepare(&mut self, k: u32) -> Result<(), Fault> {
        if self.steady.is_some() { Ok(()) } else { self.load.prepare(k) }
    }

    fn sample(&mut self, k: u32, out: &mut [u64]) -> Result<(), Fault> {
        if let Some(pace) = self.steady {
            return self.steady_samples(pace, out);
        }
        self.load.sample(k, out)?;
        self.read_meter();
        Ok(())
    }

    fn check(&mut self) -> Result<Check, Fault> {
        let Some((clock, stream)) = &self.clock else { return self.load.check() };
        let mut bytes = [0; 16];
        G::download(stream, clock.whole(), &mut bytes)?;
        let [cycles, nanoseconds] =
            [0, 8].map(|offset| u64::from_le_bytes(std::array::from_fn(|byte| bytes[offset + byte])) as f64);
        let hertz = cycles / nanoseconds * 1e9;
        self.hertz = Some(hertz).filter(|hertz| hertz.is_finite() && (1e8..1e10).contains(hertz));
        self.load.check()
    }

    fn extra(&self, out: &mut BTreeMap<String, f64>) {
        self.load.extra(out);
        let figures = [("power", self.energy.power()), ("temperature", self.temperature)];
        out.extend(figures.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
    }

    fn clock_hz(&self) -> Option<f64> {
        self.hertz
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn power_is_measured_between_steps_of_the_energy_counter() {
        let mut energy = Energy::default();
        // 500 W, counted in steps of 100 ms, read every 30 ms.
        for look in 0..40 {
            let seconds = f64::from(look) * 0.03;
            energy.read(1000.0 + 50.0 * (seconds / 0.1 + 1e-9).floor(), seconds);
        }
        let power = energy.power().unwrap();
        assert!((power / 500.0 - 1.0).abs() < 0.06, "{power}");
        assert_eq!(Energy::default().power(), None);
    }
}
