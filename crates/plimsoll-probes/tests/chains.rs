//! The pointer chases of `latency` and `uniformity` on a stand-in whose kernels are Rust functions: right kernels pass, and every
//! wrong kernel is detected.

mod host;

use std::sync::Arc;

use host::{Body, Call, Device, Host};
use plimsoll_core::probe::{Case, Depth, Run};
use plimsoll_gen::kernel::chain::{Chain, HOPS};
use plimsoll_gen::kernel::check;
use plimsoll_gpu::Span;
use plimsoll_gpu::launch::Kind;
use plimsoll_probes::latency::kernels::{Nearest, build, chase};
use plimsoll_probes::{latency, uniformity};

/// The fault of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// It reports, but does no work.
    Idle,
    /// It leaves out the last element.
    LastElement,
    /// It closes the chain too early.
    Short,
    /// Its elements lead to those after the next ones.
    EverySecond,
    /// It makes no timed hops.
    Untimed,
    /// It makes one hop less in each iteration.
    OneLess,
}

fn building(fault: Fault) -> Body {
    Arc::new(move |call: &mut Call<'_>| {
        let [pages, visits, pitch, seed] = [1, 2, 3, 4].map(|place| call.number(place));
        let (chain, n) = (Chain { pages, visits, pitch, seed }, u64::from(call.number(5)));
        let made = match fault {
            Fault::Idle => 0,
            Fault::LastElement => n - 1,
            _ => n,
        };
        let base = span(call, 0).pointer();
        for i in 0..made {
            let next = match fault {
                Fault::Short if i + 2 == n => 0,
                Fault::EverySecond => i + 2,
                _ => i + 1,
            };
            call.store(0, (chain.offset(i) / 8) as usize, &[base + chain.offset(next)]);
        }
    })
}

/// A chase whose cursor is argument `cursor`; those from `hops` on are its numbers of hops.
fn chasing(cursor: usize, hops: &'static [usize], found: u64, fault: Fault) -> Body {
    Arc::new(move |call: &mut Call<'_>| {
        let (timed, launch) = (hops.len() - 1, call.launch);
        assert_eq!((launch.geometry.block[0], launch.form.cooperative), (32, false));
        let made = hops.iter().enumerate().map(|(phase, place)| {
            let hops = u64::from(call.number(*place));
            match fault {
                Fault::Idle => 0,
                Fault::Untimed if phase == timed => 0,
                Fault::OneLess => hops - hops / HOPS,
                _ => hops,
            }
        });
        let end = (0..made.sum()).fold(load(call, span(call, cursor).pointer()), |at, _| load(call, at));
        call.store(cursor, 0, &[end]);
        call.store(0, 0, &[1000, 1000, end, found]);
    })
}

fn span(call: &Call<'_>, place: usize) -> Span {
    let Kind::Memory(span) = call.launch.arguments.kinds()[place] else { panic!("argument {place} is not an array") };
    span
}

/// The word of 8 bytes at an address.
fn load(call: &Call<'_>, address: u64) -> u64 {
    let mut word = [0; 8];
    let of_address = Span::new(address / host::APART, address, 8);
    call.stream.bytes(of_address, |bytes| word.copy_from_slice(bytes)).expect("chases stay inside the chain");
    u64::from_le_bytes(word)
}

/// The multiprocessor on which `verify` chases: the last one of the stand-in.
const LAST: u64 = 31;

/// A device with the kernels of both probes; the kernel `wrong` has this fault. The others do nothing.
fn device(wrong: &str, fault: Fault) -> Device {
    let fault_of = |name: &str| if name == wrong { fault } else { Fault::None };
    let nothing = check::kernels().into_iter().chain(uniformity::kernels::kernels());
    let nothing = nothing.map(|kernel| (kernel.name, Arc::new(|_: &mut Call<'_>| {}) as Body));
    let chases = [Nearest::L1, Nearest::L2].map(|nearest| {
        let name = chase(nearest).name;
        let body = chasing(1, &[2, 3], 0, fault_of(&name));
        (name, body)
    });
    let alone = uniformity::kernels::chase().name;
    let others =
        [(alone.clone(), chasing(4, &[5], LAST, fault_of(&alone))), (build().name, building(fault_of(&build().name)))];
    Device::new(nothing.chain(chases).chain(others))
}

/// The kernels with a wrong case.
fn wrong_kernels(runner: &impl Run<Host>, wrong: &str, fault: Fault) -> Vec<String> {
    let mut found = Vec::new();
    let mut add = |case: Case| found.extend((!case.wrong.is_empty()).then_some(case.kernel));
    runner.verify(&mut device(wrong, fault), Depth::Small, &mut add).unwrap();
    found.dedup();
    found
}

#[test]
fn right_chains_and_chases_pass() {
    assert!(wrong_kernels(&latency::GpuRunner, "", Fault::None).is_empty());
    // Its other kernels do nothing.
    let wrong = wrong_kernels(&uniformity::GpuRunner, "", Fault::None);
    assert!(!wrong.contains(&uniformity::kernels::chase().name), "{wrong:?}");
}

#[test]
fn each_wrong_chain_is_detected_and_not_followed() {
    for fault in [Fault::Idle, Fault::LastElement, Fault::Short, Fault::EverySecond] {
        let wrong = wrong_kernels(&latency::GpuRunner, &build().name, fault);
        assert!(wrong.contains(&build().name), "{fault:?}");
        let wrong = wrong_kernels(&uniformity::GpuRunner, &build().name, fault);
        assert!(wrong.contains(&uniformity::kernels::chase().name), "{fault:?}");
    }
}

#[test]
fn each_wrong_chase_is_detected() {
    for fault in [Fault::Idle, Fault::Untimed, Fault::OneLess] {
        for name in [Nearest::L1, Nearest::L2].map(|nearest| chase(nearest).name) {
            assert_eq!(wrong_kernels(&latency::GpuRunner, &name, fault), [name.as_str()], "{fault:?}");
        }
        let name = uniformity::kernels::chase().name;
        assert!(wrong_kernels(&uniformity::GpuRunner, &name, fault).contains(&name), "{fault:?}");
    }
}
