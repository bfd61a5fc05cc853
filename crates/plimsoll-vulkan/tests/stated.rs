//! Launches every kernel on a real device with only its description, and checks the description: arrays that are only read don't
//! change, every byte of an array that is filled is written, and no other memory is touched.
#![allow(clippy::print_stdout, reason = "it is its own harness")]

mod common;

use std::sync::Arc;

use plimsoll_core::Fault;
use plimsoll_core::probe::Bench;
use plimsoll_gen::kernel::{
    Access, Amount, Array, Extent, Index, KernelDesc, Kind, Machine, Number, Parameter, Setting,
};
use plimsoll_gen::pattern;
use plimsoll_gpu::unit::Unit;
use plimsoll_gpu::{Arguments, Gpu, Memory as _};
use plimsoll_probes::copy::kernels as copy;
use plimsoll_probes::latency::kernels::{self as latency, Nearest};
use plimsoll_vulkan::{Buffer, Stream, Vulkan};

use common::{TRUST, download, stream, upload};

/// Bytes before and after every array that must not change.
const GUARD: u64 = 256;
/// Content of guards and outputs before a launch. Two runs with different poison distinguish a byte that isn't written from one
/// that is written with the value it already had.
const POISONS: [u8; 2] = [0xa5, 0x5a];

fn main() {
    common::run(&[
        ("kernels_touch_only_the_stated_memory", kernels_touch_only_the_stated_memory),
        ("wrong_descriptions_are_found", wrong_descriptions_are_found),
    ]);
}

/// Chooses the value of a number parameter: sizes that aren't whole blocks, and small ones where they are multiplied.
fn choose_number(kernel: &KernelDesc, name: &str) -> u64 {
    match name {
        "n" if *kernel.source == latency::SOURCE => 15,
        "n" => 3 * kernel.elements_per_block() + 7,
        "pitch" if *kernel.source == latency::SOURCE => 6,
        "pitch" => 3 * kernel.elements_per_block() + 12,
        "pages" => 3,
        "visits" => 5,
        "reads" | "writes" => 2,
        "warm" => 32,
        "hops" => 64,
        "nanoseconds" => 1000,
        "seed" | "word" => 77,
        _ => panic!("{} takes {name}, which this test doesn't know", kernel.name),
    }
}

/// An array with its guards.
struct GuardedArray {
    name: &'static str,
    access: Access,
    buffer: Buffer,
    bytes: u64,
    before: Vec<u8>,
}

impl GuardedArray {
    fn new(stream: &Arc<Stream>, (name, array): (&'static str, Array), bytes: u64, poison: u8) -> Result<Self, Fault> {
        let mut before = vec![poison; (bytes + 2 * GUARD) as usize];
        if array.access.reads() {
            let inside = &mut before[GUARD as usize..(GUARD + bytes) as usize];
            // Different bytes in every array.
            let seed = u64::from(name.as_bytes()[0]);
            inside.iter_mut().zip(0..).for_each(|(byte, place)| *byte = pattern::bits(seed, place) as u8);
        }
        let buffer = upload(stream, &before)?;
        if name == "cursor" {
            // The cursor points at itself, so the chase stays there.
            let own = buffer.part(GUARD, bytes)?;
            before[GUARD as usize..(GUARD + 8) as usize].copy_from_slice(&own.pointer().to_le_bytes());
            Vulkan::upload(stream, buffer.whole(), &before)?;
        }
        Ok(Self { name, access: array.access, buffer, bytes, before })
    }
}

/// An array after the launch, and what is wrong with it.
struct ArrayAfter {
    name: &'static str,
    access: Access,
    wrong: Option<String>,
    inside: Vec<u8>,
}

/// Launches a kernel once, with this poison.
fn launch_once(
    stream: &Arc<Stream>,
    unit: &Unit<Vulkan>,
    kernel: &KernelDesc,
    poison: u8,
) -> Result<Vec<ArrayAfter>, Fault> {
    let machine: Machine = unit.machine();
    let has_n = kernel.parameters.iter().any(|parameter| parameter.name == "n");
    let n = if has_n { choose_number(kernel, "n") } else { 3 * u64::from(kernel.threads) };
    let grid = kernel.geometry(n, machine)?;
    let value = |name: &str| Some(choose_number(kernel, name));
    let setting = Setting {
        kernel,
        grid: [grid.blocks, 1, 1],
        block: [grid.threads, 1, 1],
        shared: 0,
        cluster: 0,
        number: &value,
    };
    let (mut held, mut list) = (Vec::new(), Arguments::new());
    for parameter in kernel.parameters {
        list = match (parameter.array(), parameter.number(kernel)) {
            (Some(array), _) => {
                let bytes = array.extent.bytes(&setting).expect("an extent that can be computed");
                assert_ne!(array.extent, Extent::Unstated, "{}", kernel.name);
                let one = GuardedArray::new(stream, (parameter.name, array), bytes, poison)?;
                let list = list.span(one.buffer.part(GUARD, bytes)?);
                held.push(one);
                list
            }
            (_, Some(Number::F32)) => list.f32(1.5),
            (_, Some(Number::F64)) => list.f64(1.5),
            (_, Some(Number::U32)) if parameter.kind == Kind::Scalar => list.u32(3),
            (_, Some(Number::U32)) => list.u32(choose_number(kernel, parameter.name) as u32),
            _ => list.u64(choose_number(kernel, parameter.name)),
        };
    }
    Vulkan::launch(stream, &unit.launch(kernel, n, list)?)?;
    held.into_iter()
        .map(|one| {
            let after = download(stream, one.buffer.whole())?;
            let (from, to) = (GUARD as usize, (GUARD + one.bytes) as usize);
            let guards = after[..from] == one.before[..from] && after[to..] == one.before[to..];
            let same = after[from..to] == one.before[from..to];
            let wrong = if !guards {
                Some("is touched before its beginning or past its end")
            } else if one.access == Access::Read && !same {
                Some("is only read, but changed")
            } else {
                None
            };
            let wrong = wrong.map(|wrong| format!("{}: {} {wrong}", kernel.name, one.name));
            Ok(ArrayAfter { name: one.name, access: one.access, wrong, inside: after[from..to].to_vec() })
        })
        .collect()
}

/// Lists differences between a kernel's description and what it does.
fn find_differences(stream: &Arc<Stream>, unit: &Unit<Vulkan>, kernel: &KernelDesc) -> Result<Vec<String>, Fault> {
    let [first, second] =
        [launch_once(stream, unit, kernel, POISONS[0])?, launch_once(stream, unit, kernel, POISONS[1])?];
    let mut wrong = Vec::new();
    for (one, other) in first.into_iter().zip(second) {
        let left = |(a, b): (&u8, &u8)| (*a, *b) == (POISONS[0], POISONS[1]);
        let place = one.inside.iter().zip(&other.inside).position(left);
        if let (Access::Fill, Some(place)) = (one.access, place) {
            let (name, of) = (one.name, one.inside.len());
            wrong.push(format!("{}: {name} is filled, but byte {place} of {of} isn't written", kernel.name));
        }
        wrong.extend(one.wrong.into_iter().chain(other.wrong));
    }
    Ok(wrong)
}

fn kernels_touch_only_the_stated_memory(bench: &mut Bench<Vulkan>) -> Result<(), Fault> {
    let stream = stream(bench.device());
    let (mut count, mut filled) = (0, 0);
    for source in plimsoll_probes::sources() {
        let device = bench.device();
        let mut kernels = source.kernels(Vulkan::target(device));
        kernels.retain(|kernel| Vulkan::runs(device, kernel).is_ok());
        if kernels.is_empty() {
            continue;
        }
        let unit = Unit::new(device, source, &kernels, TRUST)?;
        for kernel in &kernels {
            assert_eq!(find_differences(&stream, &unit, kernel)?, Vec::<String>::new());
            let fills = |one: &&Parameter| one.array().is_some_and(|array| array.access == Access::Fill);
            filled += kernel.parameters.iter().filter(fills).count();
            count += 1;
        }
    }
    println!("{count} kernels, {filled} arrays that are filled");
    assert!(count > 80 && filled > 60, "{count} {filled}");
    Ok(())
}

fn wrong_descriptions_are_found(bench: &mut Bench<Vulkan>) -> Result<(), Fault> {
    let stream = stream(bench.device());
    let mut find_with_change =
        |kernel: &KernelDesc, place: usize, change: &dyn Fn(&mut Array)| -> Result<String, Fault> {
            let mut parameters = kernel.parameters.to_vec();
            let Kind::Array(array) = &mut parameters[place].kind else { panic!("{place} is not an array") };
            change(array);
            let stated = KernelDesc { parameters: parameters.leak(), ..kernel.clone() };
            let unit = Unit::new(bench.device(), stated.source, std::slice::from_ref(&stated), TRUST)?;
            Ok(find_differences(&stream, &unit, &stated)?.join("\n"))
        };
    let (build, chase, copy) = (latency::build(), latency::chase(Nearest::L1), copy::vector(4, Index::U64));
    assert_eq!(find_with_change(&build, 0, &|_| ())?, "");
    let message = find_with_change(&build, 0, &|base| base.access = Access::Fill)?;
    assert!(message.contains("base is filled, but byte"), "{message}");
    let message = find_with_change(&copy, 0, &|out| out.access = Access::Read)?;
    assert!(message.contains("out is only read, but changed"), "{message}");
    const SHORT: Amount = Amount::Less(&Amount::Product(&[Amount::Is(4), Amount::Of("n")]), &Amount::Is(8));
    let message = find_with_change(&copy, 0, &|out| out.extent = Extent::Bytes(SHORT))?;
    assert!(message.contains("out is touched before its beginning or past its end"), "{message}");
    let message = find_with_change(&chase, 0, &|out| out.extent = Extent::Times(40, &[]))?;
    assert!(message.contains("out is filled, but byte 32 of 40"), "{message}");
    Ok(())
}
