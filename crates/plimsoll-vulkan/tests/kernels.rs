//! Checks every kernel on a real device against oracles on the host, which share nothing with the checking kernels, and runs the
//! probes' own verification.
#![allow(clippy::print_stdout, reason = "it is its own harness")]

mod common;

use std::sync::Arc;

use plimsoll_core::Fault;
use plimsoll_core::probe::{Bench, Depth};
use plimsoll_core::sample::Check;
use plimsoll_gen::kernel::chain::{Chain, HOPS};
use plimsoll_gen::kernel::check::{Data, fill};
use plimsoll_gen::kernel::{Element, Grid, Index, KernelDesc, Output, Source};
use plimsoll_gen::kernel::{Op, formula};
use plimsoll_probes::latency::kernels::{self as latency, Nearest};

use plimsoll_gen::pattern;
use plimsoll_gpu::checker::Checker;
use plimsoll_gpu::unit::Unit;
use plimsoll_gpu::{Arguments, Gpu, Memory as _};
use plimsoll_probes::copy::kernels as copy;
use plimsoll_probes::dispatch::kernels as dispatch;
use plimsoll_probes::launch::kernels as launch;
use plimsoll_vulkan::{Buffer, Stream, Vulkan};

use common::{TRUST, download, stream, to_bytes, to_longs, to_words, upload};

/// Bytes after an output that must not change, and their content.
const GUARD: u64 = 256;
const POISON: u8 = 0xee;
const SEED: u64 = 42;
const SCALAR: f32 = 1.625;
/// Awkward numbers of elements: around multiples of vectors and blocks, primes, zero.
const SIZES: [u64; 12] = [0, 1, 3, 31, 33, 255, 257, 1009, 1023, 1025, 4099, 65_537];

fn main() {
    common::run(&[
        ("fills_depend_only_on_the_seed", fills_depend_only_on_the_seed),
        ("copies_write_only_their_output", copies_write_only_their_output),
        ("streams_compute_their_operation", streams_compute_their_operation),
        ("checks_find_wrong_elements", checks_find_wrong_elements),
        ("folds_and_sums_are_exact", folds_and_sums_are_exact),
        ("chases_follow_the_chain", chases_follow_the_chain),
        ("blocks_beyond_a_row_all_run", blocks_beyond_a_row_all_run),
        ("scale_multiplies_by_the_scalar", scale_multiplies_by_the_scalar),
        ("probes_verify_without_wrong_cases", probes_verify_without_wrong_cases),
    ]);
}

/// Allocates an array of poison with a guard after it.
fn allocate_poisoned(stream: &Arc<Stream>, bytes: u64) -> Result<Buffer, Fault> {
    upload(stream, &vec![POISON; (bytes + GUARD) as usize])
}

/// Reads an array, after checking that its guard is intact.
#[track_caller]
fn read_guarded(stream: &Arc<Stream>, buffer: &Buffer, what: &str) -> Result<Vec<u8>, Fault> {
    let mut all = download(stream, buffer.whole())?;
    let guard = all.split_off(all.len() - GUARD as usize);
    assert!(guard.iter().all(|byte| *byte == POISON), "{what} wrote past the end of its output");
    Ok(all)
}

fn run(stream: &Arc<Stream>, unit: &Unit<Vulkan>, kernel: &KernelDesc, n: u64, list: Arguments) -> Result<(), Fault> {
    Vulkan::launch(stream, &unit.launch(kernel, n, list)?)
}

fn load_kernels(bench: &mut Bench<Vulkan>, source: &'static Source) -> Result<(Vec<KernelDesc>, Unit<Vulkan>), Fault> {
    let device = bench.device();
    let mut kernels = source.kernels(Vulkan::target(device));
    kernels.retain(|kernel| Vulkan::runs(device, kernel).is_ok());
    let unit = Unit::new(device, source, &kernels, TRUST)?;
    Ok((kernels, unit))
}

fn fills_depend_only_on_the_seed(bench: &mut Bench<Vulkan>) -> Result<(), Fault> {
    let stream = stream(bench.device());
    let (_, unit) = load_kernels(bench, &plimsoll_gen::kernel::check::SOURCE)?;
    let fill_with = |data, element, n: u64| -> Result<Vec<u8>, Fault> {
        let kernel = fill(data, element);
        let out = allocate_poisoned(&stream, n * u64::from(element.bytes()))?;
        run(&stream, &unit, &kernel, n, Arguments::new().buffer(&out).u64(SEED).u64(n))?;
        read_guarded(&stream, &out, &kernel.name)
    };
    for n in SIZES {
        let singles = |value: fn(u64) -> u32| (0..n).map(value).collect::<Vec<u32>>();
        assert_eq!(to_words(&fill_with(Data::Bits, Element::Word, n)?), singles(|i| pattern::bits(SEED, i)));
        assert_eq!(
            to_words(&fill_with(Data::Unit, Element::F32, n)?),
            singles(|i| pattern::unit_f32(SEED, i).to_bits())
        );
        assert_eq!(
            to_words(&fill_with(Data::Small, Element::F32, n)?),
            singles(|i| (pattern::small(SEED, i) as f32).to_bits())
        );
        if Vulkan::runs(bench.device(), &fill(Data::Unit, Element::F64)).is_ok() {
            let doubles = |value: fn(u64) -> f64| (0..n).map(|i| value(i).to_bits()).collect::<Vec<u64>>();
            assert_eq!(to_longs(&fill_with(Data::Unit, Element::F64, n)?), doubles(|i| pattern::unit_f64(SEED, i)));
            assert_eq!(
                to_longs(&fill_with(Data::Small, Element::F64, n)?),
                doubles(|i| f64::from(pattern::small(SEED, i)))
            );
        }
    }
    Ok(())
}

fn copies_write_only_their_output(bench: &mut Bench<Vulkan>) -> Result<(), Fault> {
    let stream = stream(bench.device());
    let (mut kernels, unit) = load_kernels(bench, &plimsoll_probes::copy::kernels::SOURCE)?;
    assert_eq!(kernels.len(), 10, "naive and vectors of 1, 2, 4 and 8, with both indices");
    kernels.extend([1, 2, 4].map(|width| copy::one_multiprocessor(width, Index::U64)));
    let few = kernels.iter().filter(|kernel| kernel.looping).map(|kernel| kernel.clone().with_grid(Grid::Blocks(3)));
    for kernel in few.collect::<Vec<_>>().iter().chain(&kernels) {
        for n in SIZES {
            let from: Vec<u32> = (0..n).map(|i| pattern::bits(SEED, i)).collect();
            let (input, out) = (upload(&stream, &to_bytes(&from))?, allocate_poisoned(&stream, 4 * n)?);
            let list = Arguments::new().buffer(&out).buffer(&input);
            let list = if kernel.index == Index::U32 { list.u32(n as u32) } else { list.u64(n) };
            run(&stream, &unit, kernel, n, list)?;
            assert!(to_words(&read_guarded(&stream, &out, &kernel.name)?) == from, "{} of {n}", kernel.name);
        }
    }
    Ok(())
}

/// The allowed results of an operation for element i: Vulkan may round a fused operation twice.
fn allowed_results(op: Op, [a, b, c]: [&[f32]; 3], i: usize) -> [f32; 2] {
    let neighbour = |offset: isize| a[(i as isize + offset).clamp(0, a.len() as isize - 1) as usize];
    let exactly = |value: f32| [value; 2];
    match op {
        Op::Init => exactly(SCALAR),
        Op::Copy => exactly(a[i]),
        Op::Scale => exactly(SCALAR * a[i]),
        Op::Add => exactly(a[i] + b[i]),
        Op::Triad => [SCALAR.mul_add(b[i], a[i]), SCALAR * b[i] + a[i]],
        Op::Schoenauer => [b[i].mul_add(c[i], a[i]), b[i] * c[i] + a[i]],
        Op::Point3 => exactly(SCALAR * ((neighbour(-1) + neighbour(0)) + neighbour(1))),
        Op::Point5 => {
            exactly(SCALAR * ((((neighbour(-2) + neighbour(-1)) + neighbour(0)) + neighbour(1)) + neighbour(2)))
        }
        Op::Read | Op::Dot => unreachable!("reductions have no result per element"),
    }
}

fn operation(kernel: &KernelDesc) -> Op {
    let named = |op: &Op| kernel.name.starts_with(&format!("stream_{}_", op.name()));
    Op::ALL.into_iter().find(named).expect("a stream kernel names its operation")
}

fn streams_compute_their_operation(bench: &mut Bench<Vulkan>) -> Result<(), Fault> {
    let stream = stream(bench.device());
    let (kernels, unit) = load_kernels(bench, &plimsoll_probes::stream::kernels::SOURCE)?;
    for op in Op::ALL {
        assert!(kernels.iter().any(|kernel| operation(kernel) == op), "no kernel of {}", op.name());
    }
    println!("{} stream kernels", kernels.len());
    for kernel in &kernels {
        let op = operation(kernel);
        for n in [0, 1, 33, kernel.elements_per_block() - 1, 3 * kernel.elements_per_block() + 7] {
            let folds = matches!(kernel.output, Output::WarpBits | Output::WarpSums);
            let array = |seed: u64| -> Vec<f32> {
                let value = |i| if op == Op::Dot { pattern::small(seed, i) as f32 } else { pattern::unit_f32(seed, i) };
                (0..n).map(value).collect()
            };
            let arrays = [1, 2, 3].map(array);
            let upload_array =
                |array: &Vec<f32>| upload(&stream, &to_bytes(&array.iter().map(|x| x.to_bits()).collect::<Vec<_>>()));
            let inputs = arrays.iter().map(upload_array).collect::<Result<Vec<_>, Fault>>()?;
            let warps = kernel.geometry(n, unit.machine())?.warps();
            let out = allocate_poisoned(&stream, 4 * if folds { warps } else { n })?;
            let list = inputs.iter().fold(Arguments::new().buffer(&out), |list, input| list.buffer(input));
            run(&stream, &unit, kernel, n, list.f32(SCALAR).u64(n))?;
            let found = to_words(&read_guarded(&stream, &out, &kernel.name)?);
            let what = format!("{} of {n}", kernel.name);
            let views = [&arrays[0][..], &arrays[1][..], &arrays[2][..]];
            match kernel.output {
                Output::WarpBits => {
                    let expected = arrays[0].iter().fold(0, |bits, x| bits ^ x.to_bits());
                    assert_eq!(found.iter().fold(0, |bits, word| bits ^ word), expected, "{what}");
                }
                Output::WarpSums => {
                    let expected: f64 = views[0].iter().zip(views[1]).map(|(a, b)| f64::from(a * b)).sum();
                    let sum: f64 = found.iter().map(|bits| f64::from(f32::from_bits(*bits))).sum();
                    assert!(sum == expected, "{what}: {sum}, not {expected}");
                }
                _ => {
                    for (i, bits) in found.iter().enumerate() {
                        let allowed = allowed_results(op, views, i).map(f32::to_bits);
                        assert!(allowed.contains(bits), "{what}: element {i} is {bits:#x}, not {allowed:x?}");
                    }
                }
            }
        }
    }
    Ok(())
}

/// Checks pass correct results, and report the number of wrong elements and the first.
fn checks_find_wrong_elements(bench: &mut Bench<Vulkan>) -> Result<(), Fault> {
    let stream = stream(bench.device());
    let checker = Checker::<Vulkan>::new(bench.device(), TRUST)?;
    let n = 10_007_u64;
    let arrays = [1, 2, 3].map(|seed| (0..n).map(|i| pattern::unit_f32(seed, i)).collect::<Vec<f32>>());
    let upload_array =
        |array: &[f32]| upload(&stream, &to_bytes(&array.iter().map(|x| x.to_bits()).collect::<Vec<_>>()));
    let inputs = arrays.iter().map(|array| upload_array(array)).collect::<Result<Vec<_>, Fault>>()?;
    let spans = [inputs[0].whole(), inputs[1].whole(), inputs[2].whole()];
    let views = [&arrays[0][..], &arrays[1][..], &arrays[2][..]];
    for op in Op::ALL.into_iter().filter(|op| formula(*op).is_some()) {
        for rounding in 0..2 {
            let mut out: Vec<f32> = (0..n as usize).map(|i| allowed_results(op, views, i)[rounding]).collect();
            let check =
                |out: &[f32]| checker.check_map(op, Element::F32, upload_array(out)?.whole(), spans, SCALAR.into());
            assert!(matches!(check(&out)?, Check::Passed), "{}", op.name());
            for place in [9_999, 5_000, 777] {
                out[place] = f32::from_bits(out[place].to_bits() ^ 1 << 22);
            }
            let Check::Failed(why) = check(&out)? else { panic!("{} passed with wrong elements", op.name()) };
            assert!(why.contains(&format!("3 of {n}")) && why.contains("the first is 777"), "{why}");
        }
    }
    let same = upload(&stream, &download(&stream, spans[0])?)?;
    assert!(matches!(checker.check_map(Op::Copy, Element::Word, same.whole(), [spans[0]; 3], 0.0)?, Check::Passed));
    checker.poison(same.part(40, 4)?)?;
    assert!(matches!(checker.check_map(Op::Copy, Element::Word, same.whole(), [spans[0]; 3], 0.0)?, Check::Failed(_)));
    check_doubles(bench, &stream, &checker)?;
    check_mixes(&stream, &checker)
}

fn check_doubles(bench: &mut Bench<Vulkan>, stream: &Arc<Stream>, checker: &Checker<Vulkan>) -> Result<(), Fault> {
    if Vulkan::runs(bench.device(), &fill(Data::Unit, Element::F64)).is_err() {
        return Ok(());
    }
    let upload_array = |value: &dyn Fn(u64) -> f64| {
        upload(stream, &(0..1009).flat_map(|i| value(i).to_le_bytes()).collect::<Vec<u8>>())
    };
    let (a, b) = (|i| pattern::unit_f64(1, i), |i| pattern::unit_f64(2, i));
    let inputs = [upload_array(&a)?, upload_array(&b)?];
    let spans = [inputs[0].whole(), inputs[1].whole(), inputs[0].whole()];
    let good = upload_array(&|i| 1.5 * b(i) + a(i))?;
    assert!(matches!(checker.check_map(Op::Triad, Element::F64, good.whole(), spans, 1.5)?, Check::Passed));
    let bad = upload_array(&|i| if i == 1000 { 0.0 } else { 1.5 * b(i) + a(i) })?;
    let Check::Failed(why) = checker.check_map(Op::Triad, Element::F64, bad.whole(), spans, 1.5)? else {
        panic!("a wrong triad passed");
    };
    assert!(why.contains("1 of 1009") && why.contains("the first is 1000"), "{why}");
    Ok(())
}

/// Two inputs and two outputs, a pitch apart.
fn check_mixes(stream: &Arc<Stream>, checker: &Checker<Vulkan>) -> Result<(), Fault> {
    let (n, pitch) = (1009_usize, 1024_usize);
    let input: Vec<u32> = (0..2 * pitch as u64).map(|i| pattern::bits(5, i)).collect();
    let mut out = vec![0; 2 * pitch];
    for (k, i) in [0, 1].into_iter().flat_map(|k| (0..n).map(move |i| (k, i))) {
        out[k * pitch + i] = input[i] ^ input[pitch + i] ^ (k as u32 + 1);
    }
    let input = upload(stream, &to_bytes(&input))?;
    let check = |out: &[u32]| {
        let out = upload(stream, &to_bytes(out))?;
        checker.check_mix(out.whole(), input.whole(), (4 * pitch as u64, 4 * n as u64), (2, 2))
    };
    assert!(matches!(check(&out)?, Check::Passed));
    out[pitch + 1000] ^= 1;
    assert!(matches!(check(&out)?, Check::Failed(why) if why.contains("1 of 1009")));
    Ok(())
}

fn folds_and_sums_are_exact(bench: &mut Bench<Vulkan>) -> Result<(), Fault> {
    let stream = stream(bench.device());
    let checker = Checker::<Vulkan>::new(bench.device(), TRUST)?;
    for n in SIZES.into_iter().filter(|n| *n > 0) {
        let from: Vec<u32> = (0..n).map(|i| pattern::bits(SEED, i)).collect();
        let buffer = upload(&stream, &to_bytes(&from))?;
        assert_eq!(checker.xor_words(buffer.whole())?, from.iter().fold(0, |bits, word| bits ^ word));
        if Vulkan::runs(bench.device(), &plimsoll_gen::kernel::check::sum(false, Element::F32)).is_err() {
            continue;
        }
        let small = |seed| (0..n).map(|i| (pattern::small(seed, i) as f32).to_bits()).collect::<Vec<u32>>();
        let (a, b) = (upload(&stream, &to_bytes(&small(1)))?, upload(&stream, &to_bytes(&small(2)))?);
        let sum: u64 = (0..n).map(|i| u64::from(pattern::small(1, i))).sum();
        let dot: u64 = (0..n).map(|i| u64::from(pattern::small(1, i) * pattern::small(2, i))).sum();
        assert_eq!(checker.sum_products(Element::F32, a.whole(), None)?, sum as f64);
        assert_eq!(checker.sum_products(Element::F32, a.whole(), Some(b.whole()))?, dot as f64);
        let long: Vec<u8> = (0..n).flat_map(|i| f64::from(pattern::small(3, i)).to_le_bytes()).collect();
        let long = upload(&stream, &long)?;
        let square: u64 = (0..n).map(|i| u64::from(pattern::small(3, i).pow(2))).sum();
        assert_eq!(checker.sum_products(Element::F64, long.whole(), Some(long.whole()))?, square as f64);
    }
    check_sums_of_any_block(bench, &stream)
}

/// A block combines the sums of its threads pairwise by halves. With an odd count, the middle one has no partner.
fn check_sums_of_any_block(bench: &mut Bench<Vulkan>, stream: &Arc<Stream>) -> Result<(), Fault> {
    let kernel = plimsoll_gen::kernel::check::sum(false, Element::F32);
    if Vulkan::runs(bench.device(), &kernel).is_err() {
        return Ok(());
    }
    let (_, unit) = load_kernels(bench, &plimsoll_gen::kernel::check::SOURCE)?;
    let n = 70_001_u64;
    let words: Vec<u32> = (0..n).map(|i| (pattern::small(1, i) as f32).to_bits()).collect();
    let (right, input) =
        ((0..n).map(|i| f64::from(pattern::small(1, i))).sum::<f64>(), upload(stream, &to_bytes(&words))?);
    for threads in [1, 2, 3, 5, 31, 33, 100, 255, 256, 257, 1000] {
        let result = upload(stream, &[0; 8])?;
        let arguments = Arguments::new().buffer(&input).buffer(&input).u64(n).buffer(&result);
        run(stream, &unit, &kernel.clone().with_threads(threads)?, n, arguments)?;
        assert_eq!(f64::from_bits(to_longs(&download(stream, result.whole())?)[0]), right, "blocks of {threads}");
    }
    Ok(())
}

fn chases_follow_the_chain(bench: &mut Bench<Vulkan>) -> Result<(), Fault> {
    let stream = stream(bench.device());
    let (_, unit) = load_kernels(bench, &plimsoll_probes::latency::kernels::SOURCE)?;
    let clock = Vulkan::capabilities(bench.device()).kernel_clock.clone();
    for chain in
        [Chain::lines(1, 1), Chain::lines(2, 1), Chain::lines(1000, 9), Chain::local(2, 3), Chain::sparse(5, 7)]
    {
        let memory = allocate_poisoned(&stream, chain.span())?;
        let n = chain.elements();
        let base = memory.part(0, chain.span())?;
        let list =
            Arguments::new().span(base).u32(chain.pages).u32(chain.visits).u32(chain.pitch).u32(chain.seed).u64(n);
        run(&stream, &unit, &latency::build(), n, list)?;
        let built = to_longs(&read_guarded(&stream, &memory, "latency_build")?);
        for i in 0..n {
            let next = built[(chain.offset(i) / 8) as usize];
            assert_eq!(next, base.pointer() + chain.offset(i + 1), "element {i} of {chain:?}");
        }
        for nearest in [Nearest::L1, Nearest::L2] {
            let cursor = upload(&stream, &(base.pointer() + chain.offset(0)).to_le_bytes())?;
            let report = allocate_poisoned(&stream, 32)?;
            let (warm, hops) = (3 * HOPS, 50 * HOPS);
            let list = Arguments::new().span(report.part(0, 32)?).buffer(&cursor).u64(warm).u64(hops);
            run(&stream, &unit, &latency::chase(nearest), 1, list)?;
            let end = base.pointer() + chain.offset(warm + hops);
            assert_eq!(to_longs(&download(&stream, cursor.whole())?), [end]);
            let report = to_longs(&read_guarded(&stream, &report, "latency_chase")?);
            assert_eq!((report[2], report[3]), (end, 0));
            match &clock {
                Ok(clock) => {
                    assert!(report[0] > 0 && (report[1] > 0) == clock.nanoseconds, "{report:?}");
                    println!("{:?}: {} cycles, {} ns a hop", nearest, report[0] / hops, report[1] / hops);
                }
                Err(_) => assert_eq!((report[0], report[1]), (0, 0)),
            }
        }
    }
    Ok(())
}

fn blocks_beyond_a_row_all_run(bench: &mut Bench<Vulkan>) -> Result<(), Fault> {
    let stream = stream(bench.device());
    let (kernels, unit) = load_kernels(bench, &plimsoll_probes::dispatch::kernels::SOURCE)?;
    assert_eq!(kernels.len(), 2 * dispatch::THREADS.len());
    for blocks in [1, 33, 65_535, 65_536, 200_003_u64] {
        let kernel = dispatch::marked(32);
        let out = allocate_poisoned(&stream, 4 * blocks)?;
        run(&stream, &unit, &kernel, 32 * blocks, Arguments::new().span(out.part(0, 4 * blocks)?))?;
        let marks = to_words(&read_guarded(&stream, &out, &kernel.name)?);
        assert!((0..blocks as u32).eq(marks.iter().copied()), "{blocks} blocks");
        let checker = Checker::<Vulkan>::new(bench.device(), TRUST)?;
        assert!(matches!(checker.check_marks(out.part(0, 4 * blocks)?)?, Check::Passed));
        run(&stream, &unit, &dispatch::empty(32), 32 * blocks, Arguments::new())?;
    }
    let checker = Checker::<Vulkan>::new(bench.device(), TRUST)?;
    let wrong = upload(&stream, &to_bytes(&[0, 1, 3]))?;
    assert!(matches!(checker.check_marks(wrong.whole())?, Check::Failed(_)));
    Vulkan::wait(&stream)
}

fn scale_multiplies_by_the_scalar(bench: &mut Bench<Vulkan>) -> Result<(), Fault> {
    let stream = stream(bench.device());
    let (_, unit) = load_kernels(bench, &plimsoll_probes::launch::kernels::SOURCE)?;
    let kernel = launch::scale(launch::Follows::After);
    for n in SIZES {
        let from: Vec<f32> = (0..n).map(|i| pattern::unit_f32(SEED, i)).collect();
        let input = upload(&stream, &to_bytes(&from.iter().map(|x| x.to_bits()).collect::<Vec<_>>()))?;
        let out = allocate_poisoned(&stream, 4 * n)?;
        run(&stream, &unit, &kernel, n, Arguments::new().buffer(&out).buffer(&input).f32(SCALAR).u64(n))?;
        let expected: Vec<u32> = from.iter().map(|x| (SCALAR * x).to_bits()).collect();
        assert!(to_words(&read_guarded(&stream, &out, "scale")?) == expected, "{n}");
    }
    run(&stream, &unit, &launch::empty(launch::Follows::After), 1, Arguments::new())?;
    Vulkan::wait(&stream)
}

fn probes_verify_without_wrong_cases(bench: &mut Bench<Vulkan>) -> Result<(), Fault> {
    let names = ["stream", "copy", "launch", "dispatch", "latency"];
    let probes = plimsoll_probes::gpu_probes::<Vulkan>();
    let probes: Vec<_> = probes.into_iter().filter(|probe| names.contains(&probe.spec().name)).collect();
    assert_eq!(probes.len(), names.len());
    for probe in probes {
        let (mut cases, mut wrong) = (0, Vec::new());
        probe.verify(bench.device(), Depth::Small, &mut |case| {
            cases += 1;
            wrong.extend((!case.wrong.is_empty()).then_some(case));
        })?;
        println!("{}: {cases} cases", probe.spec().name);
        assert!(cases > 0 && wrong.is_empty(), "{}: {wrong:#?}", probe.spec().name);
    }
    Ok(())
}
