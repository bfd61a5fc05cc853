//! pattern on the CPU: every core fills its part of one array and reads it back.

use plimsoll_core::Traffic;
use plimsoll_cpu::memory::{Buffer, Pages, Split};
use plimsoll_cpu::workload::window;

use super::{Checked, Pass};
use crate::prelude::cpu::*;

/// Most bytes in a quick run, and otherwise.
const MOST: [u64; 2] = [2 << 30, 16 << 30];
/// Share of the free memory: one in so many.
const SHARE: u64 = 4;
/// Words that are compared before the result is looked at.
const STRIDE: usize = 1 << 20;
/// Bytes to which the cores' parts are aligned.
const LINE: usize = 128;

impl Run<Cpu> for super::CpuRunner {
    fn points(&self, _: &CpuDevice, _: &Request) -> usize {
        Pass::ALL.len()
    }

    fn run(&self, session: &mut Session<'_, Cpu>) -> Result<(), Fault> {
        let cores = session.device.cpus.len();
        let most = MOST[usize::from(session.request.effort != Effort::Quick)];
        let wanted = plimsoll_cpu::memory::free_bytes().map_or(most, |free| most.min(free / SHARE));
        let size = window::size(session.request.bytes, wanted, 1)?;
        let team = team(session, cores)?;
        let memory = Arc::new(Buffer::new((size.bytes / 8) as usize, Pages::Huge)?.split(cores, LINE));
        let seed = session.request.seed;
        let flags = size.shrunk.then_some(Flag::Shrunk).into_iter().collect();
        let sweep = Sweep { series: super::checks(), points: &Pass::ALL, share: 1.0, flags };
        let bytes = size.bytes / 8 * 8;
        let coordinates = |pass: &Pass| Checked { pass: *pass, memory: bytes.into() };
        session.sweep(sweep, coordinates, |_, pass| load(&team, &memory, bytes, seed, *pass)).map(drop)
    }

    fn verify(&self, device: &mut CpuDevice, depth: Depth, report: &mut dyn FnMut(Case)) -> Result<(), Fault> {
        let cores = device.cpus.len();
        let team = Rc::new(RefCell::new(device.team(cores)?));
        let sizes: &[usize] = if depth == Depth::Small { &[1, 17, 1025] } else { &[1, 17, 1025, STRIDE, STRIDE + 1] };
        for &words in sizes {
            for pass in Pass::ALL {
                let memory = Arc::new(Buffer::new(words, Pages::Huge)?.split(cores, LINE));
                let mut load = load(&team, &memory, 8 * words as u64, 7, pass)?;
                report(Case::from_sample("pattern", format!("{words} words, {pass}"), &mut load)?);
                invert_a_bit(&memory, cores);
                let found = Case::from_sample("pattern", String::new(), &mut load)?.wrong;
                let check = if found.contains("wrong bits 0x0000000000020000") {
                    Check::Passed
                } else {
                    Check::Failed("a wrong bit was not found".to_owned())
                };
                report(Case::new("pattern", format!("{words} words, {pass}, one bit wrong"), check));
            }
        }
        Ok(())
    }
}

/// Inverts bit 17 of the first word of the last part that has one.
fn invert_a_bit(memory: &Split<u64>, cores: usize) {
    for rank in (0..cores).rev() {
        if let Some(word) = memory.part(rank).first_mut() {
            *word ^= 1 << 17;
            return;
        }
    }
}

/// The word for an index: SplitMix64, as on a GPU, with the bits of `flip` inverted.
fn word(seed: u64, index: usize, flip: u64) -> u64 {
    let mut z = seed.wrapping_add((index as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31) ^ flip
}

/// Words that were wrong.
#[derive(Clone, Copy, Debug, Default)]
struct Wrong {
    count: u64,
    first: Option<usize>,
    bits: u64,
}

/// Fills the memory; each launch of the workload checks all of it.
fn load(
    team: &Rc<RefCell<Team>>,
    memory: &Arc<Split<u64>>,
    bytes: u64,
    seed: u64,
    pass: Pass,
) -> Result<TeamLoad, Fault> {
    let flip = pass.flip();
    let target = Arc::clone(memory);
    let fill = Task::new(move |rank| {
        let mut part = target.part(rank.index);
        let begin = part.range().start;
        part.iter_mut().zip(begin..).for_each(|(to, index)| *to = word(seed, index, flip));
    });
    team.borrow_mut().run(&fill)?;
    let wrong = Arc::new(Mutex::new(Wrong::default()));
    let (source, found) = (Arc::clone(memory), Arc::clone(&wrong));
    let task = Task::new(move |rank| {
        let part = source.part(rank.index);
        let begin = part.range().start;
        for (step, words) in part.chunks(STRIDE).enumerate() {
            let first = begin + step * STRIDE;
            let differing =
                words.iter().zip(first..).fold(0, |bits, (&is, index)| bits | (is ^ word(seed, index, flip)));
            if differing != 0 {
                add_wrong(&found, words, first, |index| word(seed, index, flip));
            }
        }
    });
    let work = Work { traffic: Traffic::new(bytes, 0), window: bytes, ..Work::default() };
    let check = move || describe(&wrong);
    Ok(TeamLoad {
        team: Rc::clone(team),
        task,
        work,
        lap: Lap::Team,
        batch: Batch { cycle: 1, max: 1 },
        check: Box::new(check),
    })
}

fn add_wrong(found: &Mutex<Wrong>, words: &[u64], first: usize, expected: impl Fn(usize) -> u64) {
    let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
    for (&is, index) in words.iter().zip(first..) {
        let differing = is ^ expected(index);
        if differing != 0 {
            found.count += 1;
            found.bits |= differing;
            found.first = Some(found.first.map_or(index, |known| known.min(index)));
        }
    }
}

fn describe(found: &Mutex<Wrong>) -> Check {
    let Wrong { count, first, bits } = *found.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(first) = first else { return Check::Passed };
    let words = if count == 1 { "1 wrong word".to_owned() } else { format!("{count} wrong words") };
    Check::Failed(format!("{words} read back, the first at byte {:#x}; wrong bits {bits:#018x}", 8 * first))
}
