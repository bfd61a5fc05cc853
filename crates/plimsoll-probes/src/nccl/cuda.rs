//! nccl on GPUs: every device of the process has an array of its own number times the same random numbers from 1 to 4, so that sums
//! are exact. `mod.rs` defines the figures.

use plimsoll_cuda::driver::DeviceHandle;
use plimsoll_cuda::memory::DeviceBuffer;
use plimsoll_cuda::nccl::{Collective, Exchange, Group};
use plimsoll_cuda::{Action, Cuda, CudaDevice, Load, Shape, StreamAction, wait};

use crate::cuda::kit::{Kit, combine_checks, requested_bytes};
use crate::cuda::window::fit_arrays;
use crate::nccl::{self, DEVICES, Operation};
use crate::prelude::gpu::*;
use crate::stream::kernels::Parameters;

/// Smallest and largest array, bytes.
const SIZES: (u64, u64) = (8 << 10, 1 << 30);
/// Steps of the size at the lower efforts and at the highest, as powers of two.
const STEPS: (u32, u32) = (3, 1);
/// Sizes for `verify`: elements that each device sends in an all-gather. None is a multiple of a vector.
const AWKWARD: [u64; 6] = [1, 3, 33, 1025, 65_539, 1_048_579];
/// Most operations in a sample: the host queues them within 16 ms, and needs some 10 µs for each device of each.
const MOST: u32 = 64;

type Point = (Operation, u64);

impl Run<Cuda> for super::CudaRunner {
    fn check_device(&self, device: &CudaDevice) -> Result<(), Fault> {
        crate::cuda::check_all_devices("nccl", device)?;
        Ok(device.nccl().map(drop)?)
    }

    fn points(&self, _: &CudaDevice, request: &Request) -> usize {
        points(request.effort, request.bytes.unwrap_or(SIZES.1), 1).len()
    }

    fn run(&self, session: &mut Session<'_, Cuda>) -> Result<(), Fault> {
        let largest = requested_bytes(session, SIZES.1)?.max(SIZES.0);
        let (bytes, shrunk) = fit_arrays(session.device, 4, largest)?;
        let flags = if bytes < largest { shrunk } else { Flags::NONE };
        let bench = Bench::new(session.device, bytes.min(largest), session.request.seed)?;
        let points = points(session.request.effort, bytes.min(largest), bench.members.len() as u64);
        let sweep = Sweep { series: nccl::collectives(), points: &points, share: 1.0, flags };
        let coordinates = |(operation, size): &Point| nccl::Collective { operation: *operation, size: (*size).into() };
        session.sweep(sweep, coordinates, |_, point| bench.load(*point))?;
        Ok(())
    }

    fn verify(&self, device: &mut CudaDevice, depth: Depth, report: &mut dyn FnMut(Case)) -> Result<(), Fault> {
        let devices = u64::from(DeviceHandle::count(device.context.driver())?);
        let elements = if depth == Depth::Small { &AWKWARD[..4] } else { &AWKWARD };
        let most = 4 * devices * elements.iter().max().copied().unwrap_or(1);
        let bench = Bench::new(device, most.next_multiple_of(4096), 1)?;
        for operation in Operation::ALL {
            for count in elements {
                let size = 4 * devices * count;
                let mut load = bench.load((operation, size))?;
                report(Case::from_sample(operation.name(), format!("{size} bytes"), &mut load)?);
            }
        }
        Ok(())
    }
}

/// Both operations at each size, small sizes first. Arrays are whole numbers of elements for each device.
fn points(effort: Effort, largest: u64, devices: u64) -> Vec<Point> {
    let step = if effort == Effort::Thorough { STEPS.1 } else { STEPS.0 };
    let sizes = (0..).step_by(step as usize).map(|doublings: u32| SIZES.0 << doublings);
    let sizes = sizes.take_while(|size| *size <= largest.clamp(SIZES.0, SIZES.1));
    let whole = |size: u64| size.next_multiple_of(4 * devices.max(1));
    let mut sizes: Vec<u64> = sizes.map(whole).filter(|size| *size <= largest).collect();
    let end = largest.min(SIZES.1) / (4 * devices.max(1)) * (4 * devices.max(1));
    if sizes.last().is_none_or(|last| *last < end) && end > 0 {
        sizes.push(end);
    }
    sizes.into_iter().flat_map(|size| Operation::ALL.map(|operation| (operation, size))).collect()
}

/// One device's arrays.
struct Member {
    kit: Kit,
    /// The random numbers, the same on all devices.
    base: DeviceBuffer,
    /// Its own number times those.
    send: DeviceBuffer,
    receive: DeviceBuffer,
}

fn scale() -> KernelDesc {
    Parameters { threads: 128, ..Parameters::new(Op::Scale) }.kernel()
}

impl Member {
    fn new(device: &CudaDevice, rank: usize, bytes: u64, seed: u64) -> Result<Self, Fault> {
        let kit = Kit::new(device, &crate::stream::kernels::SOURCE, &[scale()], TRUST)?;
        let (base, send, receive) = (kit.array(bytes)?, kit.array(bytes)?, kit.array(bytes)?);
        kit.checker.fill(Data::Small, Element::F32, base.whole(), seed)?;
        let (out, a) = (send.whole(), base.whole());
        let list = Arguments::new().span(out).span(a).span(a).span(a).f32((rank + 1) as f32).u64(bytes / 4);
        kit.run_once(&kit.unit.launch(&scale(), bytes / 4, list)?)?;
        wait::stream(kit.stream())?;
        Ok(Self { kit, base, send, receive })
    }

    /// Checks that a part of what was received is `factor` times the random numbers, from their beginning.
    fn check_part(&self, (offset, bytes): (u64, u64), factor: f64) -> Result<Check, Fault> {
        let (received, base) = (self.receive.part(offset, bytes)?, self.base.part(0, bytes)?);
        self.kit.checker.check_map(Op::Scale, Element::F32, received, [base; 3], factor)
    }
}

/// All devices of this process and their communicators, which are destroyed first.
struct Bench {
    group: Rc<Group>,
    members: Rc<[Member]>,
}

impl Bench {
    fn new(device: &CudaDevice, bytes: u64, seed: u64) -> Result<Self, Fault> {
        let library = device.nccl()?;
        let mut members = vec![Member::new(device, 0, bytes, seed)?];
        for index in 1..DeviceHandle::count(device.context.driver())? {
            members.push(Member::new(&device.open_peer(index)?, members.len(), bytes, seed)?);
        }
        let streams: Vec<_> = members.iter().map(|member| Arc::clone(member.kit.stream())).collect();
        let group = Rc::new(Group::new(&library, &streams)?);
        device.context.bind()?;
        Ok(Self { group, members: members.into() })
    }

    /// The arrays of all devices for a point, and what each sends, in bytes.
    fn exchanges(&self, (operation, size): Point) -> Result<(Rc<[Exchange]>, u64), Fault> {
        let devices = self.members.len() as u64;
        let sent = if operation == Operation::Gather { size / devices } else { size };
        let exchange = |member: &Member| {
            Ok::<_, Fault>(Exchange { send: member.send.part(0, sent)?, receive: member.receive.part(0, size)? })
        };
        Ok((self.members.iter().map(exchange).collect::<Result<Rc<[_]>, _>>()?, sent))
    }

    fn load(&self, point: Point) -> Result<Load, Fault> {
        let (operation, size) = point;
        let (exchanges, sent) = self.exchanges(point)?;
        let collective = match operation {
            Operation::Reduce => Collective::AllReduce,
            Operation::Gather => Collective::AllGather,
        };
        let devices = self.members.len() as u64;
        let traffic = Traffic::new(operation.bus_bytes(size, devices), 0);
        let work = Work { traffic, operations: 1.0, ..Work::default() };
        let action = Action::Other(StreamAction::Collective(Rc::clone(&self.group), collective, exchanges));
        let first = &self.members[0].kit;
        let load = first.load_actions(Shape::Queued, vec![action], work)?.limit_launches(MOST);
        let (poisoned, checked) = (Rc::clone(&self.members), Rc::clone(&self.members));
        let prepare = move |stream: &Arc<_>| {
            for member in &*poisoned {
                member.kit.checker.poison(member.receive.part(0, size)?)?;
                wait::stream(member.kit.stream())?;
            }
            Cuda::bind(stream)
        };
        let check = move |stream: &Arc<_>| {
            let all = checked.iter().map(|member| check_member(member, operation, (size, sent), devices));
            let combined = combine_checks(all)?;
            Cuda::bind(stream)?;
            Ok(combined)
        };
        Ok(load.with_extra(DEVICES, devices as f64).with_prepare(prepare).with_check(check))
    }
}

/// Checks all that a device received.
fn check_member(member: &Member, operation: Operation, (size, sent): (u64, u64), devices: u64) -> Result<Check, Fault> {
    wait::stream(member.kit.stream())?;
    match operation {
        // Sums of 1 to n times the same number.
        Operation::Reduce => member.check_part((0, size), (devices * (devices + 1) / 2) as f64),
        Operation::Gather => {
            combine_checks((0..devices).map(|rank| member.check_part((rank * sent, sent), (rank + 1) as f64)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_go_from_the_smallest_to_the_largest_in_whole_elements_of_every_device() {
        for (effort, devices) in [(Effort::Quick, 2), (Effort::Standard, 3), (Effort::Thorough, 8), (Effort::Quick, 7)]
        {
            let points = points(effort, SIZES.1, devices);
            assert!(points.iter().all(|(_, size)| size.is_multiple_of(4 * devices)), "{points:?}");
            assert!(points.is_sorted_by_key(|point| point.1) && points[0].1 < 9 << 10, "{points:?}");
            assert!(points.last().unwrap().1 > SIZES.1 - 4096, "{points:?}");
        }
        assert_eq!(points(Effort::Quick, 8 << 10, 2).len(), 2);
        assert_eq!(points(Effort::Quick, u64::MAX, 2).last().unwrap().1, SIZES.1);
    }
}
