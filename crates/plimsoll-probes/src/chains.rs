//! Chains for pointer chases in a GPU's memory: one kernel builds a chain, a probe's kernel follows it, and the checks here tell
//! whether it did. The expected places come from [`Chain`], which the host computes itself; no check relies on a kernel.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

use plimsoll_core::Fault;
use plimsoll_core::sample::Check;
use plimsoll_gen::kernel::chain::{Chain, HOPS, LINE};
use plimsoll_gpu::in_kernel::LastLaunches;
use plimsoll_gpu::kit::combine_checks;
use plimsoll_gpu::load::Action;
use plimsoll_gpu::unit::Unit;
use plimsoll_gpu::{Arguments, Gpu, Memory as _, Span};

use crate::TRUST;
use crate::latency::kernels;

/// A chain in a device's memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BuiltChain {
    chain: Chain,
    memory: Span,
}

impl BuiltChain {
    /// A chain at the beginning of `memory`, where the caller's kernel builds it.
    pub(crate) fn new(chain: Chain, memory: Span) -> Result<Self, Fault> {
        Ok(Self { chain, memory: memory.first(chain.span())? })
    }

    /// The address that so many hops from the first element lead to.
    pub(crate) fn address(&self, hops: u64) -> u64 {
        self.memory.pointer() + self.chain.offset(hops)
    }

    /// The line that so many hops lead to.
    pub(crate) fn line(&self, hops: u64) -> Result<Span, Fault> {
        self.memory.part(self.chain.offset(hops), LINE)
    }

    /// Checks that `hops` hops ended where they lead. In a chain with more elements than hops, every lost hop shows; in a shorter
    /// one see [`Trap`].
    pub(crate) fn check_end(&self, ended: u64, hops: u64) -> Check {
        let expected = self.address(hops);
        if ended == expected {
            return Check::Passed;
        }
        Check::Failed(format!("{hops} hops ended at {ended:#x}, not at {expected:#x}"))
    }

    /// Reads the chain back and follows it naively.
    pub(crate) fn check_links<G: Gpu>(&self, stream: &Arc<G::Stream>) -> Result<Check, Fault> {
        let mut bytes = vec![0; usize::try_from(self.memory.bytes()).unwrap_or(usize::MAX)];
        G::bind(stream)?;
        G::download(stream, self.memory, &mut bytes)?;
        Ok(self.follow(&bytes))
    }

    /// Follows the chain in `bytes`: it has to visit each element once, in the right order, and close.
    fn follow(&self, bytes: &[u8]) -> Check {
        let mut seen = BTreeSet::new();
        let mut at = self.chain.offset(0);
        for hop in 0..self.chain.elements() {
            if !seen.insert(at) {
                return Check::Failed(format!("the chain is back at byte {at} after {hop} hops"));
            }
            let word = usize::try_from(at).ok().and_then(|at| bytes.get(at..)?.first_chunk());
            let Some(word) = word else {
                return Check::Failed(format!("the chain leaves its memory after {hop} hops"));
            };
            if at != self.chain.offset(hop) {
                return Check::Failed(format!("the chain is at byte {at} after {hop} hops, a wrong element"));
            }
            at = u64::from_le_bytes(*word).wrapping_sub(self.memory.pointer());
        }
        if at == self.chain.offset(0) { Check::Passed } else { Check::Failed("the chain doesn't close".to_owned()) }
    }
}

/// Builds chains for a kernel that begins where a cursor says and leaves there where it ended.
pub(crate) struct Chains<G: Gpu> {
    builder: Unit<G>,
    stream: Arc<G::Stream>,
    /// The address at which the next launch begins.
    pub(crate) cursor: Rc<G::Buffer>,
}

impl<G: Gpu> Chains<G> {
    pub(crate) fn new(device: &G::Device) -> Result<Self, Fault> {
        let builder = Unit::new(device, &kernels::SOURCE, &[kernels::build()], TRUST)?;
        let stream = Arc::clone(G::stream(device));
        let cursor = Rc::new(G::allocate(&stream, 8)?);
        Ok(Self { builder, stream, cursor })
    }

    /// Builds a chain at the beginning of `memory`, and sets the cursor to its first element.
    pub(crate) fn build(&self, chain: Chain, memory: Span) -> Result<BuiltChain, Fault> {
        let (built, n) = (BuiltChain::new(chain, memory)?, chain.elements());
        let arguments = Arguments::new().span(built.memory).u32(chain.pages).u32(chain.visits).u32(chain.pitch);
        let launch = self.builder.launch(&kernels::build(), n, arguments.u32(chain.seed).u64(n))?;
        G::bind(&self.stream)?;
        G::launch(&self.stream, &launch)?;
        write::<G>(&self.stream, self.cursor.whole(), built.address(0))?;
        Ok(built)
    }

    /// Where the last launch ended.
    pub(crate) fn read_cursor(&self) -> Result<u64, Fault> {
        read::<G>(&self.stream, self.cursor.whole())
    }

    /// A trap in `chain`. The actions of `chase` make [`HOPS`] hops from the cursor.
    pub(crate) fn trap(&self, chain: BuiltChain, chase: Vec<Action<G>>) -> Trap<G> {
        Trap { chain, chase, stream: Arc::clone(&self.stream), cursor: Rc::clone(&self.cursor) }
    }
}

/// Finds chases whose end is right by chance, by a few hops of the same kernel. One that makes no hops ends right if the chain's
/// length divides the hops; so one element temporarily points to itself, and the chase has to end there. One that loses some hops in
/// each iteration may also end right; the same few hops on the intact chain show it.
pub(crate) struct Trap<G: Gpu> {
    chain: BuiltChain,
    chase: Vec<Action<G>>,
    stream: Arc<G::Stream>,
    cursor: Rc<G::Buffer>,
}

impl<G: Gpu> Trap<G> {
    /// Checks that `hops` hops of the launches so far ended where they lead, and the trap. Afterwards the chain is intact, and the
    /// cursor is where the hops lead.
    pub(crate) fn check(&self, ended: u64, hops: u64) -> Result<Check, Fault> {
        let last = (self.chain.chain.elements() - 1).min(HOPS - 1);
        let element = self.chain.line(last)?;
        G::bind(&self.stream)?;
        write::<G>(&self.stream, element, element.pointer())?;
        let trapped = self.follow()?;
        write::<G>(&self.stream, element, self.chain.address(last + 1))?;
        let whole = self.follow()?;
        write::<G>(&self.stream, self.cursor.whole(), self.chain.address(hops))?;
        let checks =
            [(ended, hops), (trapped, last), (whole, HOPS)].map(|(ended, hops)| self.chain.check_end(ended, hops));
        combine_checks(checks.map(Ok))
    }

    /// The same for a workload whose reports count where its launches ended.
    pub(crate) fn check_last(&self, last: &LastLaunches<'_, G>, hops: u64) -> Result<Check, Fault> {
        self.check(last.reports.last().map_or(0, |report| report.count), hops)
    }

    /// Where the chase ends from the first element.
    fn follow(&self) -> Result<u64, Fault> {
        write::<G>(&self.stream, self.cursor.whole(), self.chain.address(0))?;
        self.chase.iter().try_for_each(|action| action.enqueue(&self.stream))?;
        read::<G>(&self.stream, self.cursor.whole())
    }
}

fn write<G: Gpu>(stream: &Arc<G::Stream>, to: Span, address: u64) -> Result<(), Fault> {
    G::upload(stream, to, &address.to_le_bytes())
}

fn read<G: Gpu>(stream: &Arc<G::Stream>, from: Span) -> Result<u64, Fault> {
    let mut address = [0; 8];
    G::download(stream, from, &mut address)?;
    Ok(u64::from_le_bytes(address))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A chain of 40 lines, and its memory's content.
    fn chain() -> (BuiltChain, Vec<u8>) {
        let chain = Chain::lines(40, 3);
        let built = BuiltChain::new(chain, Span::new(1, 0x7000_0000, chain.span())).unwrap();
        let mut bytes = vec![0; chain.span() as usize];
        for i in 0..chain.elements() {
            set(&mut bytes, chain.offset(i), built.address(i + 1));
        }
        (built, bytes)
    }

    fn set(bytes: &mut [u8], at: u64, address: u64) {
        bytes[at as usize..at as usize + 8].copy_from_slice(&address.to_le_bytes());
    }

    #[test]
    fn a_broken_chain_is_detected() {
        let (built, mut bytes) = chain();
        assert_eq!(built.follow(&bytes), Check::Passed);
        let at = built.chain.offset(7);
        let mut wrong = |address: u64| {
            set(&mut bytes, at, address);
            built.follow(&bytes).into_wrong()
        };
        assert!(wrong(built.address(3)).contains("is back"));
        assert!(wrong(built.memory.pointer() - LINE).contains("leaves"));
        assert!(wrong(built.address(9)).contains("a wrong element"));
        assert_eq!(wrong(built.address(8)), "");
        set(&mut bytes, built.chain.offset(39), built.address(7));
        assert!(built.follow(&bytes).into_wrong().contains("doesn't close"));
    }

    #[test]
    fn an_end_at_another_element_is_wrong() {
        let (built, _) = chain();
        assert_eq!(built.check_end(built.address(5), 45), Check::Passed);
        assert!(built.check_end(built.address(4), 45).into_wrong().starts_with("45 hops ended at"));
        assert!(BuiltChain::new(built.chain, Span::new(1, 0, 39 * LINE)).is_err());
    }
}
