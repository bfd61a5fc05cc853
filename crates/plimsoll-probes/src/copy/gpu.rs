//! copy on a GPU: the three kernels by size, hot and cold, by grid and by index width, one SM alone,
//! and the trace of one copy from its first call. `mod.rs` defines the figures, `kernel.cu` the kernels.

use plimsoll_core::sample::CachePolicy;
use plimsoll_gen::kernel::Index;
use plimsoll_gpu::rules::{MapOutput, Rules};
use plimsoll_gpu::window::{Flush, Rotation, affordable_bytes};

use super::kernels::{self, WIDTHS};
use crate::copy::{self, ByGrid, ByIndex, ByKernel, Kernel, OnOne};
use crate::prelude::gpu::*;

/// Smallest and largest arrays, bytes.
const SIZES: (u64, u64) = (8 << 20, 2 << 30);
/// Bytes per array of the copy on one SM: some 0.3 ms even with the widest accesses.
const ONE_BYTES: u64 = 16 << 20;
/// The number of waves in the notes that the project grew from.
const WAVES: u32 = 32;

/// A kernel on a grid, at one size.
#[derive(Clone, Debug)]
struct Variant {
    kernel: KernelDesc,
    names: Names,
    /// Bytes per array.
    size: u64,
}

/// The axis names of a kernel, its grid and its index.
#[derive(Clone, Copy, Debug)]
struct Names {
    kernel: Kernel,
    grid: copy::Grid,
    index: copy::Index,
}

/// How its kernels are verified.
const RULES: Rules = Rules {
    arguments: |kernel, with| {
        let list = Arguments::new().span(with.out).span(with.input);
        match kernel.index {
            Index::U32 => list.u32(u32::try_from(with.n).unwrap_or(u32::MAX)),
            Index::U64 => list.u64(with.n),
        }
    },
    map_output: |_| Some(MapOutput::Map(Op::Copy, Element::Word)),
    ..Rules::new(&kernels::SOURCE)
};

impl<G: Gpu> Run<G> for super::GpuRunner {
    const NEEDS: &'static [Need] = &[Need::Graphs];

    fn points(&self, device: &G::Device, request: &Request) -> usize {
        if request.trace {
            return 1 + traced(request.bytes.unwrap_or(copy::SHOWN_BYTES)).len();
        }
        let sizes = sizes(request.effort, request.bytes.unwrap_or(SIZES.1));
        let few = few(&sizes);
        by_kernel(&sizes).len()
            + by_kernel(&hot(&sizes, cache::<G>(device))).len()
            + by_grid(&few).len()
            + by_index(&few).len()
            + 3
    }

    fn run(&self, session: &mut Session<'_, G>) -> Result<(), Fault> {
        let effort = session.request.effort;
        let points = <Self as Run<G>>::points(self, session.device, session.request);
        let time = affordable_bytes::<G>(session.device, 2, points, session.budget())?;
        let least = session.info().cold_window().min(time);
        let usual = if session.request.trace { copy::SHOWN_BYTES } else { SIZES.1.min(time) };
        let most = requested_bytes(session, usual)?;
        let sizes = if session.request.trace { traced(most) } else { sizes(effort, most) };
        let wanted = sizes.iter().map(|size| Rotation::cold(*size, least).bytes()).max().unwrap_or(most);
        let flush = Flush::new(session.device, session.info().last_level_cache())?;
        let (bytes, flags) = fit_arrays::<G>(session.device, 2, wanted)?;
        let sizes: Vec<u64> = sizes.into_iter().filter(|size| *size <= bytes).collect();
        let bench = Bench::new(session, bytes.min(wanted))?;
        if session.request.trace {
            return trace(session, &bench, &flush, &sizes, flags);
        }
        let cold = |size| Rotation::cold(size, least).within(bench.bytes());

        let points = runnable::<G, _>(session.device, by_kernel(&sizes), Variant::kernel);
        let sweep = Sweep { series: copy::all_kernels(CachePolicy::ColdRotate), points: &points, share: 0.31, flags };
        session.sweep(sweep, Variant::by_kernel, |_, v| bench.load(&v.kernel, cold(v.size), GRAPH))?;

        let points =
            runnable::<G, _>(session.device, by_kernel(&hot(&sizes, cache::<G>(session.device))), Variant::kernel);
        let sweep = Sweep { series: copy::all_kernels(CachePolicy::Hot), points: &points, share: 0.25, flags };
        session.sweep(sweep, Variant::by_kernel, |_, v| bench.load(&v.kernel, Rotation::hot(v.size), GRAPH))?;

        let few = few(&sizes);
        let points = runnable::<G, _>(session.device, by_grid(&few), Variant::kernel);
        let sweep = Sweep { series: copy::grids(), points: &points, share: 0.23, flags };
        session.sweep(sweep, Variant::by_grid, |_, v| {
            let load = bench.load(&v.kernel, cold(v.size), GRAPH)?;
            let point = v.kernel.break_point(bench.kit.unit.machine());
            Ok(match point {
                Some(elements) => load.with_extra(copy::BREAK_POINT, elements as f64),
                None => load,
            })
        })?;

        let points = runnable::<G, _>(session.device, by_index(&few), Variant::kernel);
        let sweep = Sweep { series: copy::indices(), points: &points, share: 0.17, flags };
        session.sweep(sweep, Variant::by_index, |_, v| bench.load(&v.kernel, cold(v.size), GRAPH))?;

        one_multiprocessor(session, &bench, &flush, flags)
    }

    fn verify(&self, device: &mut G::Device, depth: Depth, report: &mut dyn FnMut(Case)) -> Result<(), Fault> {
        RULES.verify::<G>(device, (depth, TRUST), report)
    }
}

impl Variant {
    fn kernel(&self) -> KernelDesc {
        self.kernel.clone()
    }

    fn by_kernel(&self) -> ByKernel {
        ByKernel { kernel: self.names.kernel, size: self.size.into() }
    }

    fn by_grid(&self) -> ByGrid {
        ByGrid { grid: self.names.grid, kernel: self.names.kernel, size: self.size.into() }
    }

    fn by_index(&self) -> ByIndex {
        ByIndex { index: self.names.index, kernel: self.names.kernel, size: self.size.into() }
    }
}

/// Octaves up to `most`; every other one where they are large or time is short, but always the largest.
fn sizes(effort: Effort, most: u64) -> Vec<u64> {
    let step = |size: u64| match effort {
        Effort::Thorough => 2,
        // Beyond it only the share of the launch overhead changes.
        Effort::Standard if size < copy::SHOWN_BYTES => 2,
        _ => 4,
    };
    let octaves = std::iter::successors(Some(SIZES.0), |size| size.checked_mul(step(*size)));
    let mut sizes: Vec<u64> = octaves.take_while(|size| *size <= most).collect();
    if effort == Effort::Quick && most >= copy::SHOWN_BYTES {
        // The one that is shown hot and cold.
        sizes.insert(1, copy::SHOWN_BYTES);
    }
    if sizes.last() != Some(&most) {
        sizes.push(most);
    }
    sizes
}

/// Bytes of the last cache; where the driver doesn't report them, those of the largest known one.
fn cache<G: Gpu>(device: &G::Device) -> u64 {
    G::cache_bytes(device).unwrap_or(128 << 20)
}

/// Sizes of hot copies. From twice the cache on they are in effect cold, so only the largest of these is kept, to show it.
fn hot(sizes: &[u64], cache: u64) -> Vec<u64> {
    sizes.iter().copied().filter(|size| *size < 2 * cache || sizes.last() == Some(size)).collect()
}

/// The size to trace, and the largest one, whose cold copies are the upper bound for the others.
fn traced(bytes: u64) -> Vec<u64> {
    let mut sizes = vec![bytes, SIZES.1];
    sizes.retain(|size| *size >= bytes);
    sizes.dedup();
    sizes
}

/// The smallest, the largest, and two between.
fn few(sizes: &[u64]) -> Vec<u64> {
    let last = sizes.len().saturating_sub(1);
    let mut places: Vec<usize> = (0..4).map(|i| (i * last).div_ceil(3)).collect();
    places.dedup();
    places.into_iter().filter_map(|place| sizes.get(place).copied()).collect()
}

fn vector_kernel(width: u32) -> Kernel {
    match width {
        1 => Kernel::GridStride,
        2 => Kernel::Vec2,
        4 => Kernel::Vec4,
        _ => Kernel::Vec8,
    }
}

/// Every kernel on the covering grid, with 64-bit indices.
fn by_kernel(sizes: &[u64]) -> Vec<Variant> {
    let names = |kernel| Names { kernel, grid: copy::Grid::Covering, index: copy::Index::Wide };
    let mut kernels = vec![(kernels::naive(Index::U64), names(Kernel::Naive))];
    kernels.extend(WIDTHS.map(|width| (kernels::vector(width, Index::U64), names(vector_kernel(width)))));
    with_sizes(&kernels, sizes)
}

/// The looping kernels on every grid.
fn by_grid(sizes: &[u64]) -> Vec<Variant> {
    let grids = [
        (copy::Grid::Covering, Grid::Cover),
        (copy::Grid::OneWave, Grid::Waves { waves: 1 }),
        (copy::Grid::ManyWaves, Grid::Waves { waves: WAVES }),
        (copy::Grid::Least, Grid::Least { waves: WAVES }),
    ];
    let mut kernels = Vec::new();
    for width in [1, 4] {
        for (name, grid) in grids {
            let names = Names { kernel: vector_kernel(width), grid: name, index: copy::Index::Wide };
            kernels.push((kernels::vector(width, Index::U64).with_grid(grid), names));
        }
    }
    with_sizes(&kernels, sizes)
}

/// Both index widths: without a loop, and in loops long enough for their instructions to count.
fn by_index(sizes: &[u64]) -> Vec<Variant> {
    let mut kernels = Vec::new();
    for (index, name) in [Index::U32, Index::U64].into_iter().zip(copy::Index::ALL) {
        let naive = Names { kernel: Kernel::Naive, grid: copy::Grid::Covering, index: name };
        kernels.push((kernels::naive(index), naive));
        for width in [1, 4] {
            let kernel = kernels::vector(width, index).with_grid(Grid::Least { waves: WAVES });
            let names = Names { kernel: vector_kernel(width), grid: copy::Grid::Least, index: name };
            kernels.push((kernel, names));
        }
    }
    with_sizes(&kernels, sizes)
}

fn with_sizes(kernels: &[(KernelDesc, Names)], sizes: &[u64]) -> Vec<Variant> {
    let variants = |&size: &u64| {
        kernels.iter().map(move |(kernel, names)| Variant { kernel: kernel.clone(), names: *names, size })
    };
    sizes.iter().flat_map(variants).collect()
}

/// One block of 1024 threads, by vector width.
fn one_multiprocessor<G: Gpu>(
    session: &mut Session<'_, G>,
    bench: &Bench<G>,
    flush: &Flush<G>,
    flags: Flags,
) -> Result<(), Fault> {
    let size = ONE_BYTES.min(bench.bytes());
    let points = [1, 2, 4].map(|width| (width, kernels::one_multiprocessor(width, Index::U64)));
    let points = runnable::<G, _>(session.device, points, |(_, kernel)| kernel.clone());
    let sweep = Sweep { series: copy::one_multiprocessor(), points: &points, share: 0.04, flags };
    let coordinates = |(width, _): &(u32, KernelDesc)| OnOne { kernel: vector_kernel(*width) };
    session.sweep(sweep, coordinates, |_, (_, kernel)| {
        let load = bench.load(kernel, Rotation::hot(size), Shape::Latency)?;
        Ok(load.with_before(flush.actions(&bench.kit.checker)?))
    })?;
    Ok(())
}

/// One copy, call after call, on the same arrays and on others each time, and the largest copy for comparison.
fn trace<G: Gpu>(
    session: &mut Session<'_, G>,
    bench: &Bench<G>,
    flush: &Flush<G>,
    sizes: &[u64],
    flags: Flags,
) -> Result<(), Fault> {
    let least = session.info().cold_window();
    let cold: Vec<Variant> = by_kernel(sizes).into_iter().filter(|v| v.names.kernel == Kernel::Vec4).collect();
    let hot = &cold[..cold.len().min(1)];
    for (cache, points, share) in [(CachePolicy::Hot, hot, 0.3), (CachePolicy::ColdRotate, &cold, 0.7)] {
        let rotation = |size| match cache {
            CachePolicy::Hot => Rotation::hot(size),
            _ => Rotation::cold(size, least).within(bench.bytes()),
        };
        let sweep = Sweep { series: copy::trace(cache), points, share, flags };
        session.sweep(sweep, Variant::by_kernel, |_, v| {
            let load = bench.load(&v.kernel, rotation(v.size), Shape::Latency)?;
            // Removes what poisoning left in the cache before the first call.
            bench.kit.run(&flush.actions(&bench.kit.checker)?)?;
            Ok(load)
        })?;
    }
    Ok(())
}

/// What all points share: kernels and arrays.
struct Bench<G: Gpu> {
    kit: Kit<G>,
    out: G::Buffer,
    input: G::Buffer,
}

impl<G: Gpu> Bench<G> {
    fn new(session: &Session<'_, G>, bytes: u64) -> Result<Self, Fault> {
        let kit = Kit::<G>::new(session.device, &kernels::SOURCE, &kernels::kernels(), TRUST)?;
        let (out, input) = (kit.array(bytes)?, kit.array(bytes)?);
        kit.checker.fill(Data::Bits, Element::Word, input.whole(), session.request.seed)?;
        Ok(Self { kit, out, input })
    }

    fn bytes(&self) -> u64 {
        self.out.bytes()
    }

    fn load(&self, kernel: &KernelDesc, rotation: Rotation, shape: Shape) -> Result<Load<G>, Fault> {
        RULES.rotate(kernel, rotation, self.out.whole(), &[self.input.whole()])?.load(&self.kit, shape)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_end_with_the_requested_one_and_include_the_shown_one() {
        for effort in Effort::ALL {
            let sizes = sizes(effort, SIZES.1);
            assert_eq!((sizes[0], sizes.last().copied()), (SIZES.0, Some(SIZES.1)));
            assert!(sizes.contains(&copy::SHOWN_BYTES) && sizes.is_sorted());
        }
        assert_eq!(sizes(Effort::Quick, 4096), [4096]);
        assert_eq!(sizes(Effort::Standard, 20 << 20), [8 << 20, 16 << 20, 20 << 20]);
        assert_eq!(few(&[1, 2, 3, 4, 5, 6, 7, 8, 9]), [1, 4, 7, 9]);
        assert_eq!((few(&[7]), few(&[])), (vec![7], vec![]));
        assert_eq!(hot(&[8 << 20, 64 << 20, 128 << 20, SIZES.1], 60 << 20), [8 << 20, 64 << 20, SIZES.1]);
        assert_eq!((traced(16 << 20), traced(SIZES.1)), (vec![16 << 20, SIZES.1], vec![SIZES.1]));
        assert_eq!(traced(2 * SIZES.1), [2 * SIZES.1]);
    }

    #[test]
    fn every_copy_fits_its_index_and_grid() {
        use plimsoll_gen::kernel::Machine;
        let machine = Machine { multiprocessors: 132, threads_per_multiprocessor: 2048 };
        let sizes = sizes(Effort::Standard, SIZES.1);
        for v in by_kernel(&sizes).into_iter().chain(by_grid(&sizes)).chain(by_index(&sizes)) {
            assert!(v.kernel.geometry(v.size / 4, machine).is_ok(), "{v:?}");
        }
    }
}
