//! numa on a GPU: copies between the device and pinned host memory that was first touched on each memory node. `mod.rs` defines
//! the figures.

use std::cell::RefCell;

use plimsoll_cuda::driver::Stream;
use plimsoll_cuda::memory::{DeviceBuffer, HostBuffer};
use plimsoll_cuda::nodes::MemoryNode;
use plimsoll_cuda::{Action, Cuda, CudaDevice, Load, Shape, StreamAction, Unavailable};

use crate::cuda::checker::Checker;
use crate::cuda::kit::requested_bytes;
use crate::cuda::window::fit_arrays;
use crate::numa::{self, Direction, NEAR};
use crate::prelude::gpu::*;

/// Bytes of a copy.
const BYTES: u64 = 256 << 20;
/// Bytes of a copy for verification.
const SMALL: u64 = 1 << 20;
/// Most copies in a sample.
const MOST: u32 = 16;
/// Share of a buffer's pages that must be on its node.
const PLACED: f64 = 0.99;
/// The content of a host buffer before a copy arrives.
const POISON: u8 = 0xcd;

/// Index of a node's memory, and the direction.
type Spot = (usize, Direction);

impl Run<Cuda> for super::CudaRunner {
    fn check_device(&self, device: &CudaDevice) -> Result<(), Fault> {
        device.context.driver().has_all(&["cuMemHostRegister_v2", "cuMemHostUnregister"])?;
        let nodes = device.memory_nodes()?;
        if nodes.len() < 2 {
            let why = "all memory of the machine is on one node".to_owned();
            let hint = "Run it on a machine with several sockets, or set the firmware to several nodes for each socket";
            return Err(Fault::Unavailable { what: "numa", why, hint: hint.to_owned() });
        }
        Ok(())
    }

    fn points(&self, device: &CudaDevice, _: &Request) -> usize {
        2 * device.memory_nodes().map_or(0, |nodes| nodes.len())
    }

    fn run(&self, session: &mut Session<'_, Cuda>) -> Result<(), Fault> {
        let wanted = requested_bytes(session, BYTES)?;
        let (bytes, flags) = fit_arrays(session.device, 3, wanted)?;
        let bench = Bench::new(session.device, bytes.min(wanted), session.request.seed)?;
        let mut placed = Vec::new();
        for node in session.device.memory_nodes()? {
            match Placed::new(session.device, &bench, &node) {
                Ok(memory) => placed.push(Rc::new(memory)),
                Err(fault) if leaves_out_node(&fault) => session.report_fault(&fault)?,
                Err(fault) => return Err(fault),
            }
        }
        let spots: Vec<Spot> =
            (0..placed.len()).flat_map(|index| Direction::ALL.map(|direction| (index, direction))).collect();
        let coordinates = |(index, direction): &Spot| numa::Place {
            node: u64::from(placed[*index].node).into(),
            direction: *direction,
        };
        let sweep = Sweep { series: numa::nodes(), points: &spots, share: 1.0, flags };
        session.sweep(sweep, coordinates, |_, (index, direction)| bench.load(&placed[*index], *direction))?;
        Ok(())
    }

    fn verify(&self, device: &mut CudaDevice, _: Depth, report: &mut dyn FnMut(Case)) -> Result<(), Fault> {
        let bench = Bench::new(device, SMALL, 1)?;
        for node in device.memory_nodes()? {
            let memory = match Placed::new(device, &bench, &node) {
                Ok(memory) => Rc::new(memory),
                // Nothing to verify: `measure` reports why.
                Err(fault) if leaves_out_node(&fault) => continue,
                Err(fault) => return Err(fault),
            };
            for direction in Direction::ALL {
                let on = format!("node {}", node.number);
                report(Case::from_sample(direction.name(), on, &mut bench.load(&memory, direction)?)?);
            }
        }
        Ok(())
    }
}

/// Whether the other nodes can still be measured: a node may have no memory that can be pinned.
fn leaves_out_node(fault: &Fault) -> bool {
    matches!(fault, Fault::Unavailable { .. } | Fault::OutOfMemory { .. })
}

/// Pinned memory on one node, for each direction.
struct Placed {
    node: u32,
    /// Whether the device is next to it, if the system says so.
    near: Option<bool>,
    up: Rc<RefCell<HostBuffer>>,
    down: Rc<RefCell<HostBuffer>>,
}

impl Placed {
    /// # Errors
    /// [`Fault::Unavailable`] if the memory can't be placed, or is not where it should be; [`Fault::OutOfMemory`] if it can't be pinned.
    fn new(device: &CudaDevice, bench: &Bench, node: &MemoryNode) -> Result<Self, Fault> {
        let unavailable = |why: String, hint: &str| {
            Fault::from(Unavailable::new("numa", format!("node {}: {why}", node.number), hint))
        };
        if node.cpus.is_empty() {
            return Err(unavailable("it has no CPUs that could place memory there".to_owned(), "Nothing can be done"));
        }
        let buffer = || {
            let buffer = HostBuffer::on_cpus(&device.context, bench.origin.bytes(), &node.cpus)?;
            let counted = buffer.count_pages_by_node();
            check_placement(node.number, counted.as_ref()).map_err(|(why, hint)| unavailable(why, hint))?;
            Ok::<_, Fault>(Rc::new(RefCell::new(buffer)))
        };
        let (up, down) = (buffer()?, buffer()?);
        up.borrow_mut().copy_from(&bench.stream, bench.origin.whole())?;
        up.borrow_mut().content()?;
        let near = device.near_node().map(|near| near == node.number);
        Ok(Self { node: node.number, near, up, down })
    }
}

/// Checks that nearly all pages are on the node; else why not, and what to do.
fn check_placement(
    node: u32,
    counted: Option<&std::collections::BTreeMap<u32, u64>>,
) -> Result<(), (String, &'static str)> {
    let Some(counted) = counted.filter(|counted| counted.values().any(|pages| *pages > 0)) else {
        return Err((
            "the system doesn't say on which node the memory is".to_owned(),
            "Allow the process to read /proc/self/numa_maps, on a kernel with NUMA",
        ));
    };
    let all: u64 = counted.values().sum();
    let there = counted.get(&node).copied().unwrap_or(0);
    if there as f64 >= PLACED * all as f64 {
        return Ok(());
    }
    let why = format!("only {there} of {all} pages are on it");
    Err((why, "Free memory on the node, and allow the process its CPUs and memory (cpuset, numactl)"))
}

/// The device's side of the copies.
struct Bench {
    checker: Rc<Checker>,
    stream: Arc<Stream>,
    /// Random data, the source of every copy.
    origin: DeviceBuffer,
    /// Where copies from the host end.
    target: Rc<DeviceBuffer>,
    /// Where what was copied to the host is uploaded again for the check.
    back: Rc<DeviceBuffer>,
}

impl Bench {
    fn new(device: &CudaDevice, bytes: u64, seed: u64) -> Result<Self, Fault> {
        let array = || DeviceBuffer::new(&device.context, bytes);
        let (checker, stream) = (Checker::new(device, TRUST)?, Arc::clone(&device.stream));
        let (origin, target, back) = (array()?, Rc::new(array()?), Rc::new(array()?));
        checker.fill(Data::Bits, Element::Word, origin.whole(), seed)?;
        Ok(Self { checker, stream, origin, target, back })
    }

    fn load(&self, memory: &Rc<Placed>, direction: Direction) -> Result<Load, Fault> {
        let (bytes, origin) = (self.origin.bytes(), self.origin.whole());
        let (action, traffic) = match direction {
            Direction::Up => (StreamAction::Up(Rc::clone(&memory.up), self.target.whole()), Traffic::new(0, bytes)),
            Direction::Down => (StreamAction::Down(Rc::clone(&memory.down), origin), Traffic::new(bytes, 0)),
        };
        let work = Work { traffic, operations: 1.0, ..Work::default() };
        let load = Load::new(&self.stream, Shape::Stream, vec![Action::Other(action)], work)?.limit_launches(MOST);
        let load = match memory.near {
            Some(near) => load.with_extra(NEAR, f64::from(u8::from(near))),
            None => load,
        };
        let (checker, target, down) = (Rc::clone(&self.checker), Rc::clone(&self.target), Rc::clone(&memory.down));
        let prepare = move |_: &Arc<Stream>| match direction {
            Direction::Up => checker.poison(target.whole()),
            Direction::Down => {
                down.borrow_mut().content()?.fill(POISON);
                Ok(())
            }
        };
        let (checker, memory) = (Rc::clone(&self.checker), Rc::clone(memory));
        let (target, back) = (Rc::clone(&self.target), Rc::clone(&self.back));
        let check = move |stream: &Arc<Stream>| {
            let arrived = match direction {
                Direction::Up => target.whole(),
                Direction::Down => {
                    checker.poison(back.whole())?;
                    memory.down.borrow_mut().copy_to(stream, back.whole())?;
                    back.whole()
                }
            };
            checker.check_map(Op::Copy, Element::Word, arrived, [origin; 3], 0.0)
        };
        Ok(load.with_prepare(prepare).with_check(check))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_is_elsewhere_or_nowhere_is_refused() {
        let placed = [(1, 996), (0, 4)].into();
        assert_eq!(check_placement(1, Some(&placed)), Ok(()));
        assert!(check_placement(0, Some(&placed)).unwrap_err().0.contains("only 4 of 1000 pages"));
        for nothing in [None, Some(&[].into()), Some(&[(0, 0)].into())] {
            assert!(check_placement(0, nothing).unwrap_err().1.contains("numa_maps"));
        }
    }
}
