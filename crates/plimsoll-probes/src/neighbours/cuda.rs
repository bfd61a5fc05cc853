//! neighbours on GPUs: kernels and copies of `interference` on every device of the process, and copies of `peer` in rounds of
//! disjoint pairs. `mod.rs` defines the figures, `contest` makes the devices work at once.

mod contest;
mod products;

use plimsoll_core::series::Name;
use plimsoll_cuda::driver::{DeviceHandle, Stream};
use plimsoll_cuda::{Action, Cuda, CudaDevice, StreamAction, wait};

use crate::cuda::checker::Checker;
use crate::cuda::kit::{combine_checks, requested_bytes};
use crate::cuda::window::fit_arrays;
use crate::interference::Task;
use crate::interference::cuda::Bench;
use crate::neighbours::rounds::rounds;
use crate::neighbours::{self, Company, TASKS, pair_name};
use crate::prelude::gpu::*;
use contest::{Contest, Lane};
use products::{Marathon, Products};

/// Bytes per array of a kernel.
const ARRAY: u64 = 1 << 30;
/// Bytes of one copy between two devices.
const ACROSS: u64 = 256 << 20;
/// Bytes per array for verification.
const SMALL: u64 = 16 << 20;
/// Fewest devices with two disjoint pairs.
const TWO_PAIRS: usize = 4;

/// A device with its company.
type Spot = (usize, Company);
/// A pair's round, its place in it, and its company.
type Meeting = ((usize, usize), Company);

impl Run<Cuda> for super::CudaRunner {
    fn check_device(&self, device: &CudaDevice) -> Result<(), Fault> {
        device.context.driver().has_all(&["cuDeviceCanAccessPeer", "cuCtxEnablePeerAccess", "cuMemcpyPeerAsync"])?;
        crate::cuda::check_all_devices("neighbours", device)
    }

    fn points(&self, device: &CudaDevice, _: &Request) -> usize {
        let devices = DeviceHandle::count(device.context.driver()).unwrap_or(0) as usize;
        (TASKS.len() + 1) * spots(devices).len() + meetings(devices).len()
    }

    fn run(&self, session: &mut Session<'_, Cuda>) -> Result<(), Fault> {
        let wanted = requested_bytes(session, ARRAY)?;
        let (bytes, flags) = fit_arrays(session.device, 4, wanted)?;
        let host = Host::new(session.device, bytes.min(wanted), session.request.seed)?;
        let spots = spots(host.devices.len());
        for task in TASKS {
            let sweep = Sweep { series: neighbours::rates(task), points: &spots, share: 0.15, flags };
            let coordinates = |(device, with): &Spot| neighbours::Place { device: host.name(*device), with: *with };
            session.sweep(sweep, coordinates, |_, spot| host.contest(task, *spot))?;
        }
        measure_products(session)?;
        let meetings = meetings(host.devices.len());
        if meetings.is_empty() {
            return Ok(());
        }
        let schedule = rounds(host.devices.len());
        let coordinates = |((round, place), with): &Meeting| {
            let (first, second) = schedule[*round][*place];
            let pair = pair_name(&host.devices[first].name, &host.devices[second].name);
            neighbours::Pair { pair, with: *with }
        };
        let sweep = Sweep { series: neighbours::pairs(), points: &meetings, share: 0.2, flags };
        session.sweep(sweep, coordinates, |_, (place, with)| host.meeting(&schedule, *place, *with))?;
        Ok(())
    }

    fn verify(&self, device: &mut CudaDevice, _: Depth, report: &mut dyn FnMut(Case)) -> Result<(), Fault> {
        let host = Host::new(device, SMALL, 1)?;
        for task in TASKS {
            for index in 0..host.devices.len() {
                let mut contest = host.contest(task, (index, Company::Together))?;
                let on = format!("{} with all others", host.devices[index].name);
                report(Case::from_sample(task.name(), on, &mut contest)?);
            }
        }
        let products = match open_products(device) {
            Ok(products) => products,
            // Nothing to verify: `measure` reports why.
            Err(Fault::Unavailable { .. }) => Vec::new(),
            Err(fault) => return Err(fault),
        };
        for index in 0..products.len() {
            let mut marathon = marathon(&products, (index, Company::Together));
            let on = format!("cuda:{index} with all others");
            report(Case::from_sample("matrix products", on, &mut marathon)?);
        }
        let schedule = rounds(host.devices.len());
        for (round, pairs) in schedule.iter().enumerate() {
            for (place, (first, second)) in pairs.iter().enumerate() {
                let mut contest = host.meeting(&schedule, (round, place), Company::Together)?;
                let on = pair_name(&host.devices[*first].name, &host.devices[*second].name);
                report(Case::from_sample("copies both ways", format!("{on} in round {round}"), &mut contest)?);
            }
        }
        Ok(())
    }
}

/// Measures matrix products on all devices, where these have them.
fn measure_products(session: &mut Session<'_, Cuda>) -> Result<(), Fault> {
    let products = match open_products(session.device) {
        Ok(products) => products,
        Err(fault @ Fault::Unavailable { .. }) => return session.report_fault(&fault),
        Err(fault) => return Err(fault),
    };
    // All devices stay warm while all work.
    let mut spots = spots(products.len());
    spots.sort_by_key(|(_, with)| *with == Company::Together);
    let sweep = Sweep { series: neighbours::products(), points: &spots, share: 0.35, flags: Flags::NONE };
    let coordinates = |(device, with): &Spot| {
        let device = Name::from(format!("cuda:{device}"));
        neighbours::Place { device, with: *with }
    };
    session.sweep(sweep, coordinates, |_, (device, with)| Ok(marathon(&products, (*device, *with))))?;
    Ok(())
}

/// The fastest bf16 product of the first device, on every device.
fn open_products(device: &CudaDevice) -> Result<Vec<Rc<Products>>, Fault> {
    let bench = crate::tensor::gpu::Bench::<Cuda>::new(device)?;
    let spot = crate::lab::soak::gpu::choose(&bench, device)?;
    let mut products = vec![Rc::new(Products::new(device, bench, spot)?)];
    for index in 1..DeviceHandle::count(device.context.driver())? {
        let other = device.open_peer(index)?;
        products.push(Rc::new(Products::new(&other, crate::tensor::gpu::Bench::new(&other)?, spot)?));
    }
    device.context.bind()?;
    Ok(products)
}

fn marathon(products: &[Rc<Products>], (device, with): Spot) -> Marathon {
    let others = products.iter().enumerate();
    let others = others.filter(|(other, _)| with == Company::Together && *other != device);
    Marathon::new(&products[device], others.map(|(_, other)| Rc::clone(other)))
}

/// Each device alone, then with all others.
fn spots(devices: usize) -> Vec<Spot> {
    (0..devices).flat_map(|device| Company::ALL.map(|with| (device, with))).collect()
}

/// Each pair alone and in its round; none where no round has two pairs.
fn meetings(devices: usize) -> Vec<Meeting> {
    if devices < TWO_PAIRS {
        return Vec::new();
    }
    let places = rounds(devices).into_iter().enumerate().flat_map(|(round, pairs)| {
        let places = 0..pairs.len();
        places.map(move |place| (round, place))
    });
    places.flat_map(|place| Company::ALL.map(|with| (place, with))).collect()
}

/// One device with its arrays and host buffers.
struct Member {
    name: String,
    bench: Bench,
    /// For copies to the pair's other device.
    outgoing: Arc<Stream>,
}

impl Member {
    fn new(device: &CudaDevice, index: u32, bytes: u64, seed: u64) -> Result<Self, Fault> {
        let bench = Bench::new(device, bytes, seed.wrapping_add(index.into()))?;
        wait::stream(bench.kit.stream())?;
        let outgoing = Arc::new(Stream::new(&device.context)?);
        Ok(Self { name: format!("cuda:{index}"), bench, outgoing })
    }

    /// A task as a lane.
    fn lane(&self, task: Task) -> Result<Lane, Fault> {
        Lane::new([(Arc::clone(self.bench.kit.stream()), self.bench.action(task)?)])
    }
}

/// All devices of this process, each opened.
struct Host {
    devices: Vec<Rc<Member>>,
    /// Bytes of a copy between two devices.
    across: u64,
}

impl Host {
    fn new(device: &CudaDevice, bytes: u64, seed: u64) -> Result<Self, Fault> {
        let mut devices = vec![Rc::new(Member::new(device, 0, bytes, seed)?)];
        for index in 1..DeviceHandle::count(device.context.driver())? {
            devices.push(Rc::new(Member::new(&device.open_peer(index)?, index, bytes, seed)?));
        }
        for (from, to) in devices.iter().flat_map(|from| devices.iter().map(move |to| (from, to))) {
            if !Rc::ptr_eq(from, to) {
                // Without peer access, copies go through the host.
                let _ = from.bench.context().enable_peer_access(to.bench.context());
            }
        }
        Ok(Self { devices, across: ACROSS.min(bytes) })
    }

    fn name(&self, device: usize) -> Name {
        Name::from(self.devices[device].name.clone())
    }

    /// A task on one device, alone or while all others do the same.
    fn contest(&self, task: Task, (device, with): Spot) -> Result<Contest, Fault> {
        let others = self.devices.iter().enumerate().filter(|(other, _)| with == Company::Together && *other != device);
        let others = others.map(|(_, other)| other.lane(task)).collect::<Result<Vec<_>, _>>()?;
        let own = &self.devices[device];
        let work = Work { traffic: own.bench.traffic(task), operations: 1.0, ..Work::default() };
        let (poisoned, checked) = (own.bench.verdict(task), own.bench.verdict(task));
        let stream = Arc::clone(own.bench.kit.stream());
        let prepare = move || poisoned.poison();
        Contest::new((own.lane(task)?, others), work, prepare, move || checked.check(&stream))
    }

    /// Copies in both directions between the two devices of a pair.
    fn pair_lane(&self, (first, second): (usize, usize)) -> Result<Lane, Fault> {
        let (first, second) = (&self.devices[first], &self.devices[second]);
        let copy = |from: &Member, to: &Member| {
            let (target, source) = (to.bench.out.part(0, self.across)?, from.bench.input.part(0, self.across)?);
            Ok::<_, Fault>((Arc::clone(&from.outgoing), Action::Other(StreamAction::Peer(target, source))))
        };
        Lane::new([copy(first, second)?, copy(second, first)?])
    }

    /// The copies of one pair, alone or with all pairs of its round.
    fn meeting(
        &self,
        schedule: &[Vec<(usize, usize)>],
        (round, place): (usize, usize),
        with: Company,
    ) -> Result<Contest, Fault> {
        let pairs = schedule[round].iter().enumerate();
        let others = pairs.filter(|(other, _)| with == Company::Together && *other != place);
        let others = others.map(|(_, pair)| self.pair_lane(*pair)).collect::<Result<Vec<_>, _>>()?;
        let (first, second) = schedule[round][place];
        let work = Work { traffic: Traffic::new(self.across, self.across), operations: 1.0, ..Work::default() };
        let both = [Rc::clone(&self.devices[first]), Rc::clone(&self.devices[second])];
        let (poisoned, bytes) = (both.clone(), self.across);
        let prepare = move || {
            for member in &poisoned {
                member.bench.checker().poison(member.bench.out.part(0, bytes)?)?;
                wait::stream(member.bench.kit.stream())?;
            }
            Ok(())
        };
        let check = move || {
            let [first, second] = &both;
            combine_checks([check_arrival(first, second, bytes), check_arrival(second, first, bytes)])
        };
        Contest::new((self.pair_lane((first, second))?, others), work, prepare, check)
    }
}

/// Checks that the second received what the first sent. Each side is folded on its own device.
fn check_arrival(from: &Member, to: &Member, bytes: u64) -> Result<Check, Fault> {
    let sent = from.bench.checker().xor_words(from.bench.input.part(0, bytes)?)?;
    let arrived = to.bench.checker().xor_words(to.bench.out.part(0, bytes)?)?;
    Ok(Checker::compare_folds("received data", arrived, sent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_device_is_measured_alone_and_with_all_others() {
        assert_eq!(spots(1), [(0, Company::Alone), (0, Company::Together)]);
        assert_eq!(spots(8).len(), 16);
    }

    #[test]
    fn pairs_are_measured_where_a_round_has_two_of_them() {
        assert!(meetings(2).is_empty() && meetings(3).is_empty());
        assert_eq!(meetings(4).len(), 12);
        assert_eq!(meetings(5).len(), 20);
        assert_eq!(meetings(8).len(), 56);
    }
}
