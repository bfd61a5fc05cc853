//! Square products by cuBLAS on random numbers; some elements are compared with sums in double precision, integers exactly.

use std::rc::Rc;
use std::sync::Arc;

use super::kernels::{kernel, tamed, words};
use crate::lab::gemm::ERROR;
use plimsoll_core::Fault;
use plimsoll_core::sample::{Check, Work};
use plimsoll_gen::kernel::Element;
use plimsoll_gen::kernel::check::Data;
use plimsoll_gen::pattern;
use plimsoll_suite::formats::{Format, Meaning, format};

use crate::TRUST;
use crate::cuda::kit::Kit;
use plimsoll_cuda::CudaDevice;
use plimsoll_cuda::StreamAction;
use plimsoll_cuda::cublas::{Cublas, Numbers, Products};
use plimsoll_cuda::launch::{Arguments, Launch};
use plimsoll_cuda::memory::Transfer as _;
use plimsoll_cuda::memory::{DeviceBuffer, Span};
use plimsoll_cuda::{Action, Load, Shape};
use plimsoll_cuda::{Unavailable, wait};

/// Most elements of a product that are compared with the host's sums.
const CHECKED: u64 = 64;
/// Elements after C that no product may touch.
const BEHIND: u64 = 64;
/// Most products of a sample: the smallest takes some 20 µs.
const MOST: u32 = 256;
/// Seeds of A and B, and of the checked places.
const SEEDS: [u64; 2] = [0x6765_6d6d, 0x706c_696d];
const FIRST: u64 = 0x9e37;

/// A product of n rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) numbers: Numbers,
    pub(crate) n: u32,
}

impl Size {
    fn elements(self) -> u64 {
        u64::from(self.n) * u64::from(self.n)
    }

    /// The format of its factors; integers have none.
    fn format(self) -> Option<&'static Format> {
        format(self.numbers.name())
    }

    /// The number at a place of a factor, computed as the device fills 32-bit words and tames them.
    fn number(self, factor: usize, place: u64) -> f64 {
        let word = |at: u64| u64::from(pattern::bits(SEEDS[factor], at));
        let Some(format) = self.format() else {
            let byte = word(place / 4) >> (place % 4 * 8);
            return f64::from(byte as u8 as i8);
        };
        let bits = match format.storage {
            64 => word(2 * place) | word(2 * place + 1) << 32,
            16 => word(place / 2) >> (place % 2 * 16) & 0xffff,
            _ => word(place),
        };
        match format.meaning(tamed(format, bits)) {
            Meaning::Number(number) => number,
            Meaning::Infinity | Meaning::Nan => f64::NAN,
        }
    }

    /// The expected value of an element, and the sum of its products' magnitudes.
    fn expected(self, row: u64, column: u64) -> (f64, f64) {
        let n = u64::from(self.n);
        let terms = (0..n).map(|k| self.number(0, row * n + k) * self.number(1, column * n + k));
        terms.fold((0.0, 0.0), |(sum, size), term| (sum + term, size + term.abs()))
    }

    /// The allowed error of an element, relative to the magnitudes: one rounding of the result and one of each sum in its
    /// precision, in any order. Integers must be exact.
    fn tolerance(self) -> f64 {
        let sums = f64::from(self.n).sqrt();
        match self.numbers {
            Numbers::F64 => sums * 2_f64.powi(-50),
            Numbers::Tf32 => sums * 2_f64.powi(-20),
            Numbers::F16 => sums * 2_f64.powi(-20) + 2_f64.powi(-11),
            Numbers::Bf16 => sums * 2_f64.powi(-20) + 2_f64.powi(-8),
            Numbers::I8 => 0.0,
        }
    }

    /// The number in these bytes of C.
    fn read(self, bytes: &[u8]) -> f64 {
        let bits = bytes.iter().rev().fold(0_u64, |bits, byte| bits << 8 | u64::from(*byte));
        match self.numbers {
            Numbers::I8 => f64::from(bits as u32 as i32),
            Numbers::Tf32 => f64::from(f32::from_bits(bits as u32)),
            Numbers::F64 => f64::from_bits(bits),
            Numbers::F16 | Numbers::Bf16 => match self.format().map(|format| format.meaning(bits)) {
                Some(Meaning::Number(number)) => number,
                _ => f64::NAN,
            },
        }
    }

    /// The elements to check: all of a small product, otherwise the corners and random places.
    fn places(self) -> Vec<(u64, u64)> {
        let (n, all) = (u64::from(self.n), self.elements());
        if all <= CHECKED {
            return (0..all).map(|at| (at % n, at / n)).collect();
        }
        let corners = [(0, 0), (n - 1, 0), (0, n - 1), (n - 1, n - 1)];
        let chance = (0..CHECKED - 4).map(|at| {
            let bits = pattern::random_bits(FIRST, at);
            ((bits >> 32) % n, (bits & 0xffff_ffff) % n)
        });
        corners.into_iter().chain(chance).collect()
    }
}

/// State shared by all products.
#[derive(Clone)]
pub(crate) struct Bench {
    kit: Rc<Kit>,
    products: Option<Rc<Products>>,
}

/// A product's factors and its result, with some room after it.
#[derive(Clone)]
struct Arrays {
    factors: [Rc<DeviceBuffer>; 2],
    product: Rc<DeviceBuffer>,
}

impl Bench {
    /// The kernels that make numbers, without the library.
    pub(crate) fn new(device: &CudaDevice) -> Result<Self, Fault> {
        let kernels = &crate::lab::gemm::kernels::SOURCE
            .kernels(device.kernels.target().parse().unwrap_or(plimsoll_gen::Target::plain(80)));
        Ok(Self { kit: Rc::new(Kit::new(device, &crate::lab::gemm::kernels::SOURCE, kernels, TRUST)?), products: None })
    }

    /// The same with the library.
    pub(crate) fn with_library(self, cublas: &Arc<Cublas>) -> Result<Self, Fault> {
        let products = Products::new(cublas, self.kit.stream())?;
        Ok(Self { products: Some(Rc::new(products)), ..self })
    }

    /// A launch that turns the bits of some words into numbers.
    fn tame(&self, format: &Format, words: Span, n: u64) -> Result<Launch, Fault> {
        self.kit.unit.launch(&kernel(format), n, Arguments::new().span(words).u64(n))
    }

    fn arrays(&self, size: Size) -> Result<Arrays, Fault> {
        // Fills write whole words.
        let bytes = (size.elements() * size.numbers.bytes()).next_multiple_of(8);
        let made = |seed| {
            let buffer = self.kit.array(bytes)?;
            self.kit.checker.fill(Data::Bits, Element::Word, buffer.whole(), seed)?;
            if let Some(format) = size.format() {
                let launch = self.tame(format, buffer.whole(), words(format, size.elements()))?;
                self.kit.run(&[Action::Launch(launch)])?;
            }
            Ok::<_, Fault>(Rc::new(buffer))
        };
        let factors = [made(SEEDS[0])?, made(SEEDS[1])?];
        let room = (size.elements() + BEHIND) * size.numbers.sum_bytes();
        let product = Rc::new(self.kit.array(room.next_multiple_of(8))?);
        self.kit.checker.poison(product.whole())?;
        Ok(Arrays { factors, product })
    }

    fn action(&self, size: Size, arrays: &Arrays) -> Result<Action, Fault> {
        let missing =
            || Unavailable::new("cuBLAS", "it was not opened", "This is an error of plimsoll: please report it");
        let products = self.products.clone().ok_or_else(missing)?;
        let [a, b] = [0, 1].map(|factor: usize| arrays.factors[factor].whole());
        let c = arrays.product.part(0, size.elements() * size.numbers.sum_bytes())?;
        Ok(Action::Other(StreamAction::Product(products, size.numbers, size.n, [a, b, c])))
    }

    /// Samples of one product after another, with the error of the first.
    pub(crate) fn load(&self, size: Size) -> Result<Load, Fault> {
        let arrays = self.arrays(size)?;
        let action = self.action(size, &arrays)?;
        self.kit.run(std::slice::from_ref(&action))?;
        let (error, _) = self.error(size, &arrays)?;
        let n = f64::from(size.n);
        let work = Work { operations: 2.0 * n * n * n, ..Work::default() };
        let load = Load::new(self.kit.stream(), Shape::Stream, vec![action], work)?
            .with_extra(ERROR, error)
            .limit_launches(MOST);
        let bench = self.clone();
        Ok(load.with_check(move |_| Ok(bench.error(size, &arrays)?.1.map_or(Check::Passed, Check::Failed))))
    }

    /// The largest error of the checked elements, relative to the magnitudes of their products, and the first error that rounding
    /// can't explain.
    fn error(&self, size: Size, arrays: &Arrays) -> Result<(f64, Option<String>), Fault> {
        wait::stream(self.kit.stream())?;
        let width = size.numbers.sum_bytes();
        let (mut worst, mut wrong) = (0.0_f64, None);
        for (row, column) in size.places() {
            let place = row + column * u64::from(size.n);
            let mut bytes = vec![0; width as usize];
            arrays.product.part(place * width, width)?.download(self.kit.stream(), &mut bytes)?;
            let (found, (sum, magnitude)) = (size.read(&bytes), size.expected(row, column));
            let error = (found - sum).abs() / magnitude.max(f64::MIN_POSITIVE);
            // A NaN is never within the tolerance.
            let fits = error <= size.tolerance();
            if !fits && wrong.is_none() {
                wrong = Some(format!("element {row}, {column}: {found:e} instead of {sum:e}"));
            }
            worst = worst.max(error);
        }
        Ok((worst, wrong))
    }

    /// One product over poison; describes an error in it or after its end, and is empty if there is none.
    pub(crate) fn wrong(&self, size: Size) -> Result<String, Fault> {
        let arrays = self.arrays(size)?;
        let behind = arrays.product.part(size.elements() * size.numbers.sum_bytes(), BEHIND)?;
        let mut before = vec![0; BEHIND as usize];
        behind.download(self.kit.stream(), &mut before)?;
        self.kit.run(&[self.action(size, &arrays)?])?;
        let (_, wrong) = self.error(size, &arrays)?;
        let mut after = vec![0; BEHIND as usize];
        behind.download(self.kit.stream(), &mut after)?;
        let kept = if before == after { String::new() } else { "it wrote past its end".to_owned() };
        Ok(wrong.unwrap_or(kept))
    }

    /// Compares the kernel of a format over n words with the host; empty if right. The word after them must stay unchanged.
    pub(crate) fn untamed(&self, format: &'static Format, n: u64) -> Result<String, Fault> {
        let width = if format.storage == 64 { 8 } else { 4 };
        let buffer = self.kit.array((n + 1) * width)?;
        self.kit.checker.fill(Data::Bits, Element::Word, buffer.whole(), SEEDS[0])?;
        let mut before = vec![0; buffer.bytes() as usize];
        buffer.download(self.kit.stream(), &mut before)?;
        self.kit.run(&[Action::Launch(self.tame(format, buffer.whole(), n)?)])?;
        let mut after = vec![0; before.len()];
        buffer.download(self.kit.stream(), &mut after)?;
        let number = format.storage as usize / 8;
        let whole = |bytes: &[u8]| bytes.iter().rev().fold(0_u64, |bits, byte| bits << 8 | u64::from(*byte));
        for (place, (was, is)) in before.chunks_exact(number).zip(after.chunks_exact(number)).enumerate() {
            let inside = (place * number) < (n * width) as usize;
            let right = if inside { tamed(format, whole(was)) } else { whole(was) };
            if whole(is) != right {
                return Ok(format!("number {place}: {} instead of {}", format.to_hex(whole(is)), format.to_hex(right)));
            }
        }
        Ok(String::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_every_type_are_finite_and_differ_between_factors() {
        for numbers in Numbers::ALL {
            let size = Size { numbers, n: 8 };
            let all: Vec<f64> = (0..64).map(|place| size.number(0, place)).collect();
            assert!(all.iter().all(|number| number.is_finite()), "{numbers:?}");
            assert!((0..64).any(|place| size.number(1, place) != all[place as usize]), "{numbers:?}");
            if numbers != Numbers::I8 {
                assert!(all.iter().all(|number| (0.125..2.0).contains(&number.abs())), "{numbers:?} {all:?}");
            }
        }
    }

    #[test]
    fn checked_places_are_inside_the_product_and_include_its_corners() {
        for n in [1, 7, 8, 9, 4096] {
            let places = Size { numbers: Numbers::F16, n }.places();
            let last = u64::from(n) - 1;
            assert!(places.iter().all(|(row, column)| *row <= last && *column <= last), "{n}");
            assert!(places.contains(&(0, 0)) && places.contains(&(last, last)) && places.len() <= 64, "{n}");
        }
    }

    #[test]
    fn results_are_decoded_by_their_type() {
        let read = |numbers, bytes: &[u8]| Size { numbers, n: 8 }.read(bytes);
        assert_eq!(read(Numbers::F64, &1.5_f64.to_le_bytes()), 1.5);
        assert_eq!(read(Numbers::Tf32, &(-2.25_f32).to_le_bytes()), -2.25);
        assert_eq!(read(Numbers::F16, &0x3e00_u16.to_le_bytes()), 1.5);
        assert_eq!(read(Numbers::Bf16, &0xc010_u16.to_le_bytes()), -2.25);
        assert_eq!(read(Numbers::I8, &(-70_000_i32).to_le_bytes()), -70_000.0);
        assert!(read(Numbers::F16, &0x7c00_u16.to_le_bytes()).is_nan());
    }

    #[test]
    fn sums_of_the_largest_integer_products_fit_in_32_bits() {
        let (sum, size) = Size { numbers: Numbers::I8, n: 8192 }.expected(3, 5);
        assert!(sum.abs() <= size && size < f64::from(i32::MAX), "{size}");
    }
}
