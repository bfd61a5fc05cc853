//! peer on GPUs: copies, reads and loads between every two devices of one process. `crate::peer` explains the figures; the
//! chase is that of `loaded_latency` without a background, the read kernel comes from `stream`.

use std::cell::Cell;

use plimsoll_core::sample::Workload;
use plimsoll_core::series::Name;
use plimsoll_cuda::StreamAction;
use plimsoll_cuda::driver::{Context, DeviceHandle, Stream};
use plimsoll_cuda::launch::Arguments;
use plimsoll_cuda::memory::DeviceBuffer;
use plimsoll_cuda::{Action, Load, Shape};
use plimsoll_cuda::{Cuda, CudaDevice};

use crate::cuda::checker::Checker;
use crate::cuda::in_kernel::{InKernel, LaunchCycles};
use crate::cuda::kit::{Kit, requested_bytes};
use crate::cuda::window::fit_arrays;
use crate::loaded_latency::gpu::{Course, HOPS};
use crate::loaded_latency::kernels::{self as chasing, Background};
use crate::peer::{self, LINK};
use crate::prelude::gpu::*;
use crate::stream::kernels::Parameters;

/// Bytes of a copy, and of a kernel's read.
const BYTES: u64 = 256 << 20;
/// The same for verification.
const SMALL: u64 = 4 << 20;
/// Bytes of the chain: several times the caches' size, with room for chases that start far apart.
const CHAIN_BYTES: u64 = 256 << 20;
/// Distance between the starts of two chases through the same memory, in launches; otherwise the later one would find the earlier
/// one's lines in a cache. It exceeds the launches that fit into a chase's share of the time (206 through a device's own memory).
const APART: u64 = 600;
/// Most copies in a sample.
const MOST: u32 = 16;

/// Indices of two devices: from, to.
type Pair = (usize, usize);

impl Run<Cuda> for super::CudaRunner {
    const NEEDS: &'static [Need] = &[Need::Cooperative];

    fn check_device(&self, device: &CudaDevice) -> Result<(), Fault> {
        device.context.driver().has_all(&["cuDeviceCanAccessPeer", "cuCtxEnablePeerAccess", "cuMemcpyPeerAsync"])?;
        crate::cuda::check_all_devices("peer", device)
    }

    fn points(&self, device: &CudaDevice, _: &Request) -> usize {
        let devices = DeviceHandle::count(device.context.driver()).unwrap_or(0) as usize;
        3 * pairs(devices).len() + pairs(devices).len() / 2 + devices
    }

    fn run(&self, session: &mut Session<'_, Cuda>) -> Result<(), Fault> {
        let wanted = requested_bytes(session, BYTES)?.max(SMALL);
        let (bytes, flags) = fit_arrays(session.device, 4, wanted)?;
        let bytes = bytes.min(wanted);
        let nodes = Nodes::new(session.device, bytes, CHAIN_BYTES.min(bytes), session.request.seed)?;
        let name = |node: usize| Name::from(nodes.0[node].name.clone());
        let coordinates = |(from, to): &Pair| peer::Pair { from: name(*from), to: name(*to) };
        let all = pairs(nodes.0.len());
        let sweep = Sweep { series: peer::one_way(), points: &all, share: 0.3, flags };
        session.sweep(sweep, coordinates, |_, pair| nodes.copies(*pair, false))?;
        let once: Vec<Pair> = all.iter().copied().filter(|(from, to)| from < to).collect();
        let sweep = Sweep { series: peer::both_ways(), points: &once, share: 0.2, flags };
        session.sweep(sweep, coordinates, |_, pair| nodes.copies(*pair, true))?;
        // A kernel and a chase need peer access; without it, copies go through the host.
        let reached: Vec<Pair> = all.iter().copied().filter(|pair| nodes.reaches(*pair)).collect();
        let sweep = Sweep { series: peer::reads(), points: &reached, share: 0.2, flags };
        session.sweep(sweep, coordinates, |_, pair| nodes.read(*pair))?;
        let own = (0..nodes.0.len()).map(|own| (own, own));
        let chased: Vec<Pair> = own.chain(reached).collect();
        let sweep = Sweep { series: peer::latency(), points: &chased, share: 0.3, flags };
        session.sweep(sweep, coordinates, |_, pair| nodes.chase(*pair))?;
        Ok(())
    }

    fn verify(&self, device: &mut CudaDevice, _: Depth, report: &mut dyn FnMut(Case)) -> Result<(), Fault> {
        let nodes = Nodes::new(device, SMALL, SMALL, 1)?;
        let mut broken = false;
        for node in &nodes.0 {
            let links = node.course.chain.check_links::<Cuda>(node.chaser.stream())?;
            broken |= links != Check::Passed;
            report(Case { kernel: chasing::chain().name, on: node.name.clone(), wrong: links.into_wrong() });
        }
        let mut verify_pair = |kernel: &str, (from, to): Pair, workload: &mut dyn Workload| {
            workload.prepare(1)?;
            workload.sample(1, &mut [0])?;
            let wrong = if let Check::Failed(wrong) = workload.check()? { wrong } else { String::new() };
            let on = format!("{} and {}", nodes.0[from].name, nodes.0[to].name);
            report(Case { kernel: kernel.to_owned(), on, wrong });
            Ok::<_, Fault>(())
        };
        for pair in pairs(nodes.0.len()) {
            verify_pair("copy", pair, &mut nodes.copies(pair, false)?)?;
            verify_pair("copies both ways", pair, &mut nodes.copies(pair, true)?)?;
            if nodes.reaches(pair) {
                verify_pair("read", pair, &mut nodes.read(pair)?)?;
            }
            // A chase of a broken chain could read anywhere.
            if nodes.reaches(pair) && !broken {
                verify_pair("chase", pair, &mut nodes.chase(pair)?)?;
            }
        }
        Ok(())
    }
}

/// Every pair of different devices, in both orders.
fn pairs(devices: usize) -> Vec<Pair> {
    (0..devices).flat_map(|from| (0..devices).filter(move |to| *to != from).map(move |to| (from, to))).collect()
}

/// One device with its kernels and buffers.
struct Node {
    name: String,
    context: Arc<Context>,
    reader: Kit,
    chaser: Kit,
    second: Arc<Stream>,
    source: Rc<DeviceBuffer>,
    target: Rc<DeviceBuffer>,
    folds: Rc<DeviceBuffer>,
    course: Course<Cuda>,
    /// Number of chases through its memory so far.
    chased: Cell<u64>,
    /// For each device, whether this one's kernels can access its memory.
    reached: Vec<bool>,
    /// Total bandwidth of its links, bytes per second; 0 if unknown.
    links: f64,
}

/// The read kernel, which stores an XOR per warp.
fn read_kernel() -> KernelDesc {
    Parameters { threads: 128, ..Parameters::new(Op::Read) }.kernel()
}

impl Node {
    fn new(device: &CudaDevice, place: u32, bytes: u64, chain_bytes: u64, seed: u64) -> Result<Self, Fault> {
        let reader = Kit::new(device, &crate::stream::kernels::SOURCE, &[read_kernel()], TRUST)?;
        let chaser = Kit::new(device, &crate::loaded_latency::kernels::SOURCE, &chasing::kernels(), TRUST)?;
        let array = |bytes| Ok::<_, Fault>(Rc::new(reader.array(bytes)?));
        let warps = (bytes / 4).div_ceil(read_kernel().elements_per_block()) * u64::from(read_kernel().threads / 32);
        let (source, target, folds) = (array(bytes)?, array(bytes)?, array(4 * warps)?);
        reader.checker.fill(Data::Bits, Element::Word, source.whole(), seed.wrapping_add(place.into()))?;
        let course = Course::new(&chaser, chain_bytes, seed)?;
        plimsoll_cuda::wait::stream(chaser.stream())?;
        Ok(Self {
            name: format!("cuda:{place}"),
            context: Arc::clone(&device.context),
            reader,
            chaser,
            second: Arc::new(Stream::new(&device.context)?),
            source,
            target,
            folds,
            course,
            chased: Cell::new(0),
            reached: Vec::new(),
            links: device.links().unwrap_or(0.0),
        })
    }

    /// The checker of this node's own memory.
    fn checker(&self) -> Rc<Checker> {
        Rc::clone(&self.reader.checker)
    }
}

/// All devices of this process, each opened.
struct Nodes(Vec<Rc<Node>>);

impl Nodes {
    fn new(device: &CudaDevice, bytes: u64, chain_bytes: u64, seed: u64) -> Result<Self, Fault> {
        let count = DeviceHandle::count(device.context.driver())?;
        let mut nodes = vec![Node::new(device, 0, bytes, chain_bytes, seed)?];
        for place in 1..count {
            nodes.push(Node::new(&device.open_peer(place)?, place, bytes, chain_bytes, seed)?);
        }
        let reached =
            |from: usize| (0..nodes.len()).map(|to| from == to || enable_access(&nodes[from], &nodes[to])).collect();
        let reached: Vec<Vec<bool>> = (0..nodes.len()).map(reached).collect();
        for (node, reached) in nodes.iter_mut().zip(reached) {
            node.reached = reached;
        }
        Ok(Self(nodes.into_iter().map(Rc::new).collect()))
    }

    fn reaches(&self, (from, to): Pair) -> bool {
        self.0[from].reached.get(to).copied().unwrap_or(false)
    }

    fn pair(&self, (from, to): Pair) -> (Rc<Node>, Rc<Node>) {
        (Rc::clone(&self.0[from]), Rc::clone(&self.0[to]))
    }

    /// The lower of the two devices' link rates.
    fn link(&self, (from, to): Pair) -> f64 {
        if self.reaches((from, to)) { self.0[from].links.min(self.0[to].links) } else { 0.0 }
    }

    /// Copies from the first to the second by the first one's copy engine; with `both`, as much back at the same time.
    fn copies(&self, pair: Pair, both: bool) -> Result<Load, Fault> {
        let (from, to) = self.pair(pair);
        let across = |from: &Node, to: &Node| Action::Other(StreamAction::Peer(to.target.whole(), from.source.whole()));
        let bytes = from.source.bytes();
        let traffic = if both { Traffic::new(bytes, bytes) } else { Traffic::new(bytes, 0) };
        let work = Work { traffic, operations: 1.0, ..Work::default() };
        let mut load =
            Load::new(from.reader.stream(), Shape::Stream, vec![across(&from, &to)], work)?.limit_launches(MOST);
        if both {
            load = load.with_second_stream(&from.second, vec![across(&to, &from)])?;
        }
        let link = self.link(pair) * if both { 2.0 } else { 1.0 };
        let poisoned = (Rc::clone(&to), Rc::clone(&from));
        let prepare = move |_: &Arc<Stream>| {
            poisoned.0.checker().poison(poisoned.0.target.whole())?;
            poisoned.1.checker().poison(poisoned.1.target.whole())?;
            plimsoll_cuda::wait::stream(poisoned.0.reader.stream())?;
            plimsoll_cuda::wait::stream(poisoned.1.reader.stream())?;
            Ok(poisoned.1.context.bind()?)
        };
        let check = move |_: &Arc<Stream>| {
            let arrived = check_arrival(&from, &to)?;
            let back = if both { check_arrival(&to, &from)? } else { Check::Passed };
            from.context.bind()?;
            crate::cuda::kit::combine_checks([Ok(arrived), Ok(back)])
        };
        Ok(load.with_extra(LINK, link).with_prepare(prepare).with_check(check))
    }

    /// A kernel on the first device that reads the second's memory.
    fn read(&self, pair: Pair) -> Result<Load, Fault> {
        let (from, to) = self.pair(pair);
        let (kernel, n) = (read_kernel(), to.source.bytes() / 4);
        let (out, a) = (from.folds.whole(), to.source.whole());
        let list = Arguments::new().span(out).span(a).span(a).span(a).f32(1.0).u64(n);
        let launch = from.reader.unit.launch(&kernel, n, list)?;
        let work = Work { traffic: kernel.traffic(n), operations: 1.0, ..Work::default() };
        let load = from.reader.load(Shape::Stream, vec![launch], work)?.limit_launches(MOST);
        let poisoned = Rc::clone(&from);
        let prepare = move |_: &Arc<Stream>| poisoned.checker().poison(poisoned.folds.whole());
        let check = move |_: &Arc<Stream>| {
            let expected = to.checker().xor_words(to.source.whole())?;
            let found = from.checker().xor_words(from.folds.whole())?;
            Ok(Checker::compare_folds("read", found, expected))
        };
        Ok(load.with_extra(LINK, self.link(pair)).with_prepare(prepare).with_check(check))
    }

    /// One thread of the first device chases pointers through the second's memory.
    fn chase(&self, pair: Pair) -> Result<InKernel, Fault> {
        let (from, to) = self.pair(pair);
        let kernel = chasing::chase(Background::Read).with_grid(Grid::Blocks(1));
        let work = Work { operations: HOPS as f64, ..Work::default() };
        let first = to.chased.replace(to.chased.get() + 1) * APART;
        let (own, chased) = (Rc::clone(&from), Rc::clone(&to));
        let load = InKernel::new_full_reports(&from.chaser, (1, LaunchCycles::First), work, move |at| {
            let (begin, idle) = (chased.course.begin(first + at.launch)?, own.course.lines.whole());
            let list = Arguments::new().span(at.out).span(begin).u64(HOPS).span(idle).span(idle);
            own.chaser.unit.launch(&kernel, 0, list.u64(1).u32(0).u32(0).span(at.state))
        })?;
        Ok(load.with_check(move |last| Ok(to.course.check(last.reports, first + last.launches))))
    }
}

/// Enables peer access; returns whether kernels of `from` can now access the memory of `to`.
fn enable_access(from: &Node, to: &Node) -> bool {
    from.context.enable_peer_access(&to.context).is_ok()
}

/// Checks that the second received what the first sent. Each side is folded on its own device, so no peer access is needed.
fn check_arrival(from: &Node, to: &Node) -> Result<Check, Fault> {
    let sent = from.checker().xor_words(from.source.whole())?;
    let found = to.checker().xor_words(to.target.whole())?;
    Ok(Checker::compare_folds("received data", found, sent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_two_devices_are_paired_in_both_orders() {
        assert_eq!(pairs(2), [(0, 1), (1, 0)]);
        assert_eq!(pairs(8).len(), 56);
        assert!(pairs(1).is_empty());
    }
}
