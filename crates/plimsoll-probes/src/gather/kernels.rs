//! Reads, writes and additions at random locations, and the function that gives these.

use crate::prelude::kernels::*;

/// The source of these kernels.
pub static SOURCE: Source =
    Source::new("gather", include_str!("kernel.cu"), |_| kernels()).with_access_rule(AccessRule::Stated);

/// Threads per block.
pub const THREADS: u32 = 512;
/// Blocks on each SM.
pub const BLOCKS: u32 = 2;
/// Accesses of a thread in one iteration.
pub const UNROLL: u32 = 8;
/// Bytes of an access.
pub const SIZES: [u32; 6] = [4, 8, 16, 32, 64, 128];
/// Bytes of an addition.
pub const ADDED: [u32; 2] = [4, 8];
/// Bytes of a line: no access crosses one.
pub const LINE: u32 = 128;

/// Threads of one access of so many bytes: none has more than 16.
#[must_use]
pub fn lanes(size: u32) -> u32 {
    (size / 16).max(1)
}

/// Reads of so many bytes.
#[must_use]
pub fn read(size: u32) -> KernelDesc {
    KernelDesc {
        inputs: 1,
        parameters: takes!(
            out: [fill 4; PerThread(4, &[])], in: [read VECTOR; Times(128, &["lines"])],
            lines: U32 [Least(Is(1))], seed: U32, iterations: U32,
        ),
        ..moves("read", "GATHER_READ", size)
    }
}

/// Writes of so many bytes, each word's place in it.
#[must_use]
pub fn write(size: u32) -> KernelDesc {
    KernelDesc { outputs: 1, ..moves("write", "GATHER_WRITE", size) }
}

/// Additions of 1 to words of 4 or 8 bytes.
#[must_use]
pub fn add(size: u32) -> KernelDesc {
    let name = format!("gather_add_{size}");
    let word = if size == 8 { "u64" } else { "u32" };
    KernelDesc {
        entry: format!("GATHER_ADD({name}, {word}, {UNROLL}, {THREADS})"),
        parameters: takes!(at: [update VECTOR; Times(128, &["lines"])], lines: U32 [Least(Is(1))], seed: U32, iterations: U32),
        ..base(name, size)
    }
}

fn moves(what: &str, entry: &str, size: u32) -> KernelDesc {
    let name = format!("gather_{what}_{size}");
    let (bytes, lanes) = (size.min(16), lanes(size));
    KernelDesc { entry: format!("{entry}({name}, {bytes}, {lanes}, {UNROLL}, {THREADS})"), ..base(name, bytes) }
}

fn base(name: String, bytes: u32) -> KernelDesc {
    KernelDesc {
        parameters: takes!(at: [write VECTOR; Times(128, &["lines"])], lines: U32 [Least(Is(1))], seed: U32, iterations: U32),
        vector_bytes: bytes,
        unroll: UNROLL,
        ..resident(BLOCKS, &SOURCE, name, THREADS)
    }
}

/// All kernels.
#[must_use]
pub fn kernels() -> Vec<KernelDesc> {
    let moves = SIZES.into_iter().flat_map(|size| [read(size), write(size)]);
    moves.chain(ADDED.map(add)).collect()
}

/// Where access `i` (the seed included) of so many bytes begins, bytes from the array's beginning: what `kernel.cu`
/// computes. The hash is lowbias32 (Wellons, 'Prospecting for Hash Functions', 2018).
#[must_use]
pub fn place(i: u32, size: u32, lines: u32) -> u64 {
    let x = (i ^ (i >> 16)).wrapping_mul(0x7feb_352d);
    let x = (x ^ (x >> 15)).wrapping_mul(0x846c_a68b);
    let x = x ^ (x >> 16);
    let line = (u64::from(x) * u64::from(lines)) >> 32;
    line * u64::from(LINE) + u64::from(x % (LINE / size)) * u64::from(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_aligned_inside_and_spread_over_all_lines() {
        for size in SIZES {
            let lines = 1000;
            let mut seen = vec![0_u32; lines as usize];
            for i in 0..100_000 {
                let place = place(i, size, lines);
                assert!(place.is_multiple_of(size.into()) && place + u64::from(size) <= 128_000);
                seen[place as usize / 128] += 1;
            }
            assert!(seen.iter().all(|count| (40..180).contains(count)), "{size}: {:?}", seen.iter().max());
        }
    }
}
