//! `cluster` on a stand-in whose kernels are Rust functions: right kernels pass, and every wrong kernel is detected.

mod host;

use std::sync::Arc;

use host::{Body, Call, Device, Function, Host};
use plimsoll_core::probe::{Case, Depth, Run};
use plimsoll_gpu::{Gpu as _, Owner};
use plimsoll_probes::cluster::GpuRunner;
use plimsoll_probes::cluster::kernels::{Access, SOURCE_WORDS, THREADS, WORDS, chain_step, chase, datum, moving};

/// The fault of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// It reports times and counts, but does no work.
    Idle,
    /// It skips its last round or hop.
    OneLess,
    /// It works in its own block's memory.
    Own,
    /// It skips its last word.
    LastWord,
    /// Its last block reports nothing.
    LastBlock,
}

/// The initial shared memory of a cluster's blocks.
fn memory(size: u32, word: impl Fn(u32, u32) -> u32) -> Vec<Vec<u32>> {
    (0..size).map(|rank| (0..WORDS).map(|i| word(rank, i)).collect()).collect()
}

fn chasing(fault: Fault) -> Body {
    Arc::new(move |call: &mut Call<'_>| {
        let (size, rank, hops) = (call.launch.form.cluster.max(1), call.number(1), call.number(2));
        assert!(rank < size);
        let step = chain_step(if fault == Fault::Own { 0 } else { rank });
        let made = match fault {
            Fault::Idle => 0,
            Fault::OneLess => hops - 1,
            _ => hops,
        };
        let end = (0..made).fold(0, |at, _| (at + step) % WORDS);
        call.store(0, 0, &[1000, 1000, hops.into(), u64::from(4 * end)]);
    })
}

/// One round of a rank: changes its partner's memory, or returns the sum of the words it reads there.
fn round(access: Access, words: &mut [Vec<u32>], (rank, there): (u32, u32), round: u32, used: u32) -> u32 {
    let sources: Vec<u32> = (0..SOURCE_WORDS).map(|i| datum(rank, i)).collect();
    let there = &mut words[there as usize][..used as usize];
    match access {
        Access::Read | Access::ReadOwn => return there.iter().fold(0, |sum: u32, word| sum.wrapping_add(*word)),
        Access::Write => {
            for (i, word) in there.iter_mut().enumerate() {
                *word = datum(rank, i as u32 / 4 % THREADS).wrapping_add(round);
            }
        }
        // Every thread adds four times a round, to its own words.
        Access::Add => {
            for (i, word) in there.iter_mut().enumerate() {
                let added = if i as u32 % (4 * THREADS) < THREADS { rank + 1 } else { 0 };
                *word = word.wrapping_add(added);
            }
        }
        Access::Bulk => {
            for (i, word) in there.iter_mut().enumerate() {
                *word = sources[i % SOURCE_WORDS as usize];
            }
        }
    }
    0
}

fn working(access: Access, fault: Fault) -> Body {
    Arc::new(move |call: &mut Call<'_>| {
        let (blocks, size) = (call.launch.geometry.grid[0], call.launch.form.cluster.max(1));
        let (distance, rounds) = (call.number(1), call.number(2));
        let reads = matches!(access, Access::Read | Access::ReadOwn);
        let mut words = memory(size, |rank, i| if reads { datum(rank, i) } else { 0 });
        let used = if fault == Fault::LastWord { WORDS - 1 } else { WORDS };
        let made = match fault {
            Fault::Idle => 0,
            Fault::OneLess => rounds - 1,
            _ => rounds,
        };
        let own = access == Access::ReadOwn || fault == Fault::Own;
        let mut sums = vec![0_u32; size as usize];
        for rank in 0..size {
            let there = if own { rank } else { rank ^ distance };
            for at in 0..made {
                let sum = &mut sums[rank as usize];
                *sum = sum.wrapping_add(round(access, &mut words, (rank, there), at, used));
            }
        }
        for block in 0..blocks - u32::from(fault == Fault::LastBlock) {
            let rank = (block % size) as usize;
            let left = words[rank].iter().fold(0, |sum: u32, word| sum.wrapping_add(*word));
            let found = if reads { sums[rank] } else { left };
            call.store(0, 4 * block as usize, &[1000, 1000, rounds.into(), found.into()]);
        }
    })
}

/// A device with the probe's kernels; the kernel `wrong` has this fault.
fn device(wrong: &str, fault: Fault) -> Device {
    let fault_of = |name: &str| if name == wrong { fault } else { Fault::None };
    let chases = [false, true].map(|own| chase(own).name).map(|name| {
        let body = chasing(fault_of(&name));
        (name, body)
    });
    let moves = Access::ALL.map(|access| {
        let name = moving(access).name;
        let body = working(access, fault_of(&name));
        (name, body)
    });
    let fill: Body = Arc::new(|_: &mut Call<'_>| {});
    Device::new(chases.into_iter().chain(moves).chain([("fill_words".to_owned(), fill)]))
}

fn verify_cases(wrong: &str, fault: Fault) -> Vec<Case> {
    let mut cases = Vec::new();
    let verify = <GpuRunner as Run<Host>>::verify;
    verify(&GpuRunner, &mut device(wrong, fault), Depth::Small, &mut |case| cases.push(case)).unwrap();
    cases
}

#[test]
fn right_kernels_pass() {
    let cases = verify_cases("", Fault::None);
    assert!(cases.len() > 50 && cases.iter().all(|case| case.wrong.is_empty()), "{cases:?}");
}

#[test]
fn each_wrong_kernel_is_detected() {
    use Fault::{Idle, LastBlock, LastWord, OneLess, Own};
    // A kernel that always works in its own memory can't pick the wrong one.
    let chases: [(&str, &[Fault]); 2] =
        [("cluster_chase", &[Idle, OneLess, Own]), ("cluster_chase_own", &[Idle, OneLess])];
    let moves: [(&str, &[Fault]); 5] = [
        ("cluster_read", &[Idle, OneLess, Own, LastWord, LastBlock]),
        ("cluster_read_own", &[Idle, OneLess, LastWord, LastBlock]),
        ("cluster_write", &[Idle, OneLess, Own, LastWord, LastBlock]),
        // Nothing is added to the last word.
        ("cluster_add", &[Idle, OneLess, Own, LastBlock]),
        // Every round copies the same bytes, so a missing round doesn't show.
        ("cluster_bulk", &[Idle, Own, LastWord, LastBlock]),
    ];
    for (kernel, faults) in chases.into_iter().chain(moves) {
        for fault in faults {
            let cases = verify_cases(kernel, *fault);
            let found = cases.iter().any(|case| case.kernel == kernel && !case.wrong.is_empty());
            let others = cases.iter().any(|case| case.kernel != kernel && !case.wrong.is_empty());
            assert!(found && !others, "{kernel} with {fault:?}");
        }
    }
}

/// What the GPU trait answers for a backend that writes only what it must.
#[test]
#[allow(unsafe_code, reason = "borrowing memory and streams of other libraries is unsafe")]
fn parts_that_a_backend_leaves_out_are_unavailable_with_a_reason_and_a_way_out() {
    let device = Device::new([]);
    let body: Body = Arc::new(|_: &mut Call<'_>| {});
    let function = Function(body);
    let owner = || Arc::new(()) as Owner;
    // SAFETY: the stand-in never uses the addresses.
    let borrowed = unsafe {
        [Host::borrow_memory(&device, 4096, 64, owner()).err(), Host::borrow_stream(&device, 1, owner()).err()]
    };
    let others = [
        Host::global(&function, "x").err(),
        Host::machine_code(&function).err().map(plimsoll_core::Fault::from),
        Host::new_stream(&device).err(),
        Host::host_memory(Host::stream(&device), &[0]).err(),
    ];
    for (place, fault) in borrowed.into_iter().chain(others).enumerate() {
        let Some(plimsoll_core::Fault::Unavailable { what, why, hint }) = fault else {
            panic!("part {place}: {fault:?}")
        };
        assert!(!what.is_empty() && !hint.is_empty(), "part {place}");
        assert!(why.contains("host"), "part {place} names no backend: {why}");
    }
    assert!(!Host::is_recording(Host::stream(&device)).unwrap());
}
