//! strides on the CPU: one core repeatedly reads elements at a fixed stride from a buffer that fits its L1. `mod.rs`
//! explains the figures.

use plimsoll_core::Traffic;
use plimsoll_core::stats::Rng;
use plimsoll_cpu::arch::stride::{ElementBytes, StrideKernel};
use plimsoll_cpu::memory::{Buffer, Pages};

use crate::prelude::cpu::*;
use crate::strides::{self, Stride};

/// The largest stride, elements.
const LARGEST: usize = 128;
/// Bytes of L1 assumed if the system doesn't report it.
const USUAL_CACHE: u64 = 32 << 10;
/// Approximate accesses in one launch: some 100 µs.
const ACCESSES: usize = 1 << 18;
/// The smallest buffer, bytes: eight accesses at the largest stride.
const LEAST: u64 = (8 * LARGEST * 16) as u64;

impl Run<Cpu> for super::CpuRunner {
    fn points(&self, _: &CpuDevice, request: &Request) -> usize {
        plan(request.effort).len()
    }

    fn run(&self, session: &mut Session<'_, Cpu>) -> Result<(), Fault> {
        let buffer = Arc::new(random_buffer(buffer_bytes(session.device), session.request.seed)?);
        let points = plan(session.request.effort);
        let team = team(session, 1)?;
        let sweep = Sweep { series: strides::tableau(), points: &points, share: 1.0, flags: Flags::NONE };
        let load = |kernel: &StrideKernel| {
            let (task, work, check) = reads(&buffer, *kernel);
            Ok(TeamLoad { team: team.clone(), task, work, lap: Lap::First, batch: Batch::default(), check })
        };
        session.sweep(sweep, stride_coordinates, |_, kernel| load(kernel)).map(drop)
    }

    fn verify(&self, _: &mut CpuDevice, depth: Depth, report: &mut dyn FnMut(Case)) -> Result<(), Fault> {
        let mut sizes = vec![0, 1, 2, 3, 5, 7, 31, 32, 33, 127, 1025];
        match depth {
            Depth::Small => {}
            Depth::Usual => sizes.push(6143),
            Depth::Exhaustive => sizes.extend((1..=1100).chain([6143])),
        }
        let strides: &[usize] = if depth == Depth::Small { &[1, 2, 3, 7, 16, 128] } else { &QUICK_STRIDES };
        for &words in &sizes {
            let buffer = random_buffer(words as u64 * 8, 1)?;
            for kernel in ElementBytes::ALL.into_iter().flat_map(|bytes| kernels(bytes, strides)) {
                let (name, on) = (
                    format!("{}-byte", kernel.element().bytes()),
                    format!("{words} words, stride {}", kernel.stride()),
                );
                let (expected, read) = (naive_read(&buffer, kernel), kernel.read(&buffer, 3));
                let wrong =
                    if read == expected { String::new() } else { format!("{read:#x} instead of {expected:#x}") };
                report(Case { kernel: format!("strided read {name}"), on: on.clone(), wrong });
                let wrong = check_write(&buffer, kernel);
                report(Case { kernel: format!("strided write {name}"), on, wrong });
            }
        }
        Ok(())
    }
}

/// Strides of a quick run: all small ones, then powers of two and numbers near them.
static QUICK_STRIDES: [usize; 27] =
    [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 128];

fn kernels(element: ElementBytes, strides: &[usize]) -> impl Iterator<Item = StrideKernel> {
    strides.iter().filter_map(move |&stride| StrideKernel::new(element, stride))
}

fn plan(effort: Effort) -> Vec<StrideKernel> {
    let all: Vec<usize> = (1..=LARGEST).collect();
    let strides: &[usize] = if effort == Effort::Quick { &QUICK_STRIDES } else { &all };
    ElementBytes::ALL.into_iter().flat_map(|element| kernels(element, strides)).collect()
}

fn stride_coordinates(kernel: &StrideKernel) -> Stride {
    Stride { element: (kernel.element().bytes() as u64).into(), stride: (kernel.stride() as u64).into() }
}

/// Bytes of the buffer, in whole strides: two thirds of L1, which leaves room for what else the core touches. `--bytes`
/// doesn't apply: this probe is about L1.
fn buffer_bytes(device: &CpuDevice) -> u64 {
    let cache = device.topology.data_cache(1).map_or(USUAL_CACHE, |cache| cache.bytes);
    (cache * 2 / 3).max(LEAST) / LEAST * LEAST
}

/// A buffer of random words.
fn random_buffer(bytes: u64, seed: u64) -> Result<Buffer<u64>, Fault> {
    let words = usize::try_from(bytes / 8).map_err(|_| Fault::Invalid(format!("{bytes} bytes overflow an address")))?;
    let mut buffer = Buffer::new(words, Pages::Huge)?;
    let mut rng = Rng::new(seed);
    buffer.iter_mut().for_each(|word| *word = rng.next_u64());
    Ok(buffer)
}

/// The task of a launch of reads, its work and its check.
fn reads(buffer: &Arc<Buffer<u64>>, kernel: StrideKernel) -> (Task, Work, Box<dyn FnMut() -> Check>) {
    let accesses = kernel.accesses(buffer);
    let passes = (ACCESSES / accesses.max(1)).max(1) as u64;
    let expected = naive_read(buffer, kernel);
    // Before the first launch it holds a value that no read returns.
    let read = Arc::new(AtomicU64::new(!expected));
    let task = Task::new({
        let (buffer, read) = (buffer.clone(), read.clone());
        move |_| read.store(kernel.read(&buffer, passes), Ordering::Relaxed)
    });
    let check = Box::new(move || match read.load(Ordering::Relaxed) {
        read if read == expected => Check::Passed,
        read => Check::Failed(format!("read {read:#x} instead of {expected:#x}")),
    });
    let operations = accesses as u64 * passes;
    let traffic = Traffic::new(operations * kernel.element().bytes() as u64, 0);
    let work = Work { traffic, operations: operations as f64, in_kernel: true, ..Work::default() };
    (task, work, check)
}

/// Byte ranges of the elements that a pass accesses. The buffer begins at a 16-byte boundary.
fn elements(buffer: &[u64], kernel: StrideKernel) -> impl Iterator<Item = std::ops::Range<usize>> {
    let (bytes, apart) = (kernel.element().bytes(), kernel.stride() * kernel.element().bytes());
    (0..kernel.accesses(buffer)).map(move |i| i * apart..i * apart + bytes)
}

fn byte(buffer: &[u64], at: usize) -> u8 {
    buffer[at / 8].to_le_bytes()[at % 8]
}

/// The XOR of the elements of a pass, byte by byte.
fn naive_read(buffer: &[u64], kernel: StrideKernel) -> u64 {
    let mut all = [0_u8; 8];
    for element in elements(buffer, kernel) {
        for (place, at) in element.enumerate() {
            all[place % 8] ^= byte(buffer, at);
        }
    }
    u64::from_le_bytes(all)
}

/// Writes to a copy of `buffer` and describes the first wrong byte; empty if there is none.
fn check_write(buffer: &Buffer<u64>, kernel: StrideKernel) -> String {
    const VALUE: u64 = 0x0123_4567_89ab_cdef;
    let Ok(mut copy) = Buffer::new(buffer.len(), Pages::Huge) else { return "no memory for a copy".to_owned() };
    copy.copy_from_slice(buffer);
    kernel.write(&mut copy, VALUE, 2);
    let mut expected: Vec<u8> = (0..buffer.len() * 8).map(|at| byte(buffer, at)).collect();
    for element in elements(buffer, kernel) {
        for (place, at) in element.enumerate() {
            expected[at] = VALUE.to_le_bytes()[place % 8];
        }
    }
    let differs = (0..expected.len()).find(|&at| byte(&copy, at) != expected[at]);
    differs.map_or_else(String::new, |at| format!("byte {at} is {:#x} instead of {:#x}", byte(&copy, at), expected[at]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_planned_kernel_makes_at_least_eight_accesses() {
        assert_eq!(plan(Effort::Quick).len(), 3 * QUICK_STRIDES.len());
        assert_eq!(plan(Effort::Standard).len(), 3 * LARGEST);
        let buffer = random_buffer(LEAST, 1).unwrap();
        assert!(plan(Effort::Thorough).iter().all(|kernel| kernel.accesses(&buffer) >= 8));
    }

    #[test]
    fn every_verified_kernel_is_correct() {
        let cases = crate::verified::verify_on_cpu(&crate::strides::SPEC);
        assert_eq!(cases, 11 * 6 * 3 * 2);
    }

    #[test]
    fn check_fails_if_nothing_was_read() {
        let buffer = Arc::new(random_buffer(LEAST, 1).unwrap());
        let kernel = StrideKernel::new(ElementBytes::Eight, 3).unwrap();
        let (_, work, mut check) = reads(&buffer, kernel);
        assert!(matches!(check(), Check::Failed(_)));
        assert_eq!(work.traffic.read as f64, work.operations * 8.0);
    }
}
