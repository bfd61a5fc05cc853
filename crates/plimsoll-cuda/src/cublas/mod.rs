//! cuBLAS, NVIDIA's library of matrix products, found and opened at run time and never required. Its products show what the vendor
//! achieves with the device's matrix units; probes compare them with the rate of single instructions.

#[allow(unsafe_code)]
mod library;

use std::path::Path;
use std::sync::Arc;

use plimsoll_core::Fault;

use crate::driver::Stream;
use crate::memory::{Region, Span};
use crate::toolkit::{LibrarySpec, Places};
use library::{Handle, Library};
use plimsoll_gpu::Unavailable;

/// The environment variable that holds the absolute path of the library or its folder.
pub const VARIABLE: &str = "PLIMSOLL_CUBLAS";
/// Its name in error messages.
const WHAT: &str = "cuBLAS";
/// How to install it.
const HINT: &str = "Install it into the active Python environment with 'pip install nvidia-cublas' (for a driver of CUDA 12: \
                    'nvidia-cublas-cu12'), or install the CUDA toolkit, or set PLIMSOLL_CUBLAS to the library's absolute path";
/// Where the library may be: in toolkits, in the wheels of CUDA 13 and older ones, and by name.
const LIBRARY: LibrarySpec = LibrarySpec {
    what: WHAT,
    variable: VARIABLE,
    file: "libcublas.so",
    toolkit_folders: &["lib64", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib", "lib"],
    wheel_folders: &["nvidia/cu13/lib", "nvidia/cublas/lib"],
    loader_names: &["libcublas.so.13", "libcublas.so.12"],
};

/// Number formats of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbers {
    /// Double precision throughout.
    F64,
    /// Single precision, rounded to TF32's 19 bits for the products.
    Tf32,
    /// Half precision, with sums in single.
    F16,
    /// bfloat16, with sums in single.
    Bf16,
    /// Signed bytes, with sums in 32 bits.
    I8,
}

impl Numbers {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::F64, Self::Tf32, Self::F16, Self::Bf16, Self::I8];

    /// The name on axes.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::F64 => "f64",
            Self::Tf32 => "tf32",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::I8 => "i8",
        }
    }

    /// Bytes per number in A and B.
    #[must_use]
    pub fn bytes(self) -> u64 {
        match self {
            Self::F64 => 8,
            Self::Tf32 => 4,
            Self::F16 | Self::Bf16 => 2,
            Self::I8 => 1,
        }
    }

    /// Bytes per number in C.
    #[must_use]
    pub fn sum_bytes(self) -> u64 {
        if self == Self::I8 { 4 } else { self.bytes() }
    }
}

/// An opened library.
#[derive(Debug)]
pub struct Cublas {
    library: Library,
    version: u32,
}

impl Cublas {
    /// Finds and opens the library: `explicit` (a file or its folder), else `PLIMSOLL_CUBLAS`, else the toolkits of `CUDA_HOME` and
    /// `CUDA_PATH`, the usual toolkit folders, the active Python environment, and last the loader's search path. Takes the first
    /// whose CUDA major version is at most `major`.
    ///
    /// # Errors
    /// An explicit path that fails is an error: no other place is tried.
    pub fn find(explicit: Option<&Path>, major: Option<u32>) -> Result<Arc<Self>, Unavailable> {
        let named = LIBRARY.find_named(explicit, std::env::var_os(VARIABLE).as_deref())?;
        let candidates = named.unwrap_or_else(|| LIBRARY.find_usual(&Places::from_environment()));
        let mut failed: Vec<String> = Vec::new();
        for path in &candidates {
            match Library::open(path).and_then(|library| Ok((library.version()?, library))) {
                Ok((version, library)) if major.is_none_or(|major| version / 10_000 <= major) => {
                    return Ok(Arc::new(Self { library, version }));
                }
                Ok((version, _)) => failed.push(format!(
                    "{} belongs to CUDA {}, newer than the driver's CUDA {}",
                    path.display(),
                    version / 10_000,
                    major.unwrap_or_default()
                )),
                // A bare name that the loader can't find isn't worth reporting.
                Err(why) if path.is_absolute() => failed.push(format!("{}: {why}", path.display())),
                Err(_) => {}
            }
        }
        let none = "no libcublas.so in a toolkit folder, the active Python environment or the loader's search path";
        Err(Unavailable::new(WHAT, failed.into_iter().next().unwrap_or_else(|| none.to_owned()), HINT))
    }

    /// Its version: 130002 is 13.0.2.
    #[must_use]
    pub fn version(&self) -> u32 {
        self.version
    }
}

/// cuBLAS on one stream. It keeps some device memory until it is dropped.
#[derive(Debug)]
pub struct Products {
    handle: Handle,
    stream: Arc<Stream>,
}

impl Products {
    /// Initialises cuBLAS on a stream. Takes some tenths of a second; its kernels are loaded on first use.
    ///
    /// # Errors
    /// Errors of the library.
    pub fn new(cublas: &Arc<Cublas>, stream: &Arc<Stream>) -> Result<Self, Fault> {
        stream.context().bind()?;
        let handle = Handle::new(cublas, stream.handle().0).map_err(refusal)?;
        Ok(Self { handle, stream: Arc::clone(stream) })
    }

    /// Queues C = A · B for square matrices of n rows: A row-major, B and C column-major, all contiguous, so that both factors are
    /// read along the summed index.
    ///
    /// # Errors
    /// [`Fault::Invalid`] for spans that are too short or freed, or while the stream is recording; errors of the library.
    pub fn square(&self, numbers: Numbers, n: u32, [a, b, c]: [Span; 3]) -> Result<(), Fault> {
        let elements = u64::from(n) * u64::from(n);
        let short = |part: Span, bytes: u64| elements.checked_mul(bytes).is_none_or(|needed| part.bytes() < needed);
        if short(a, numbers.bytes()) || short(b, numbers.bytes()) || short(c, numbers.sum_bytes()) {
            return Err(Fault::Invalid(format!("a span is too short for {n} × {n} numbers of {}", numbers.name())));
        }
        let size = i32::try_from(n).map_err(|_| Fault::Invalid(format!("{n} rows are more than cuBLAS supports")))?;
        let entered = self.stream.enter()?;
        if entered.is_recording() {
            return Err(Fault::Invalid("products can't be recorded".to_owned()));
        }
        let mut regions = Vec::with_capacity(3);
        for part in [a, b, c] {
            let region = Region::find(part)?;
            region.share(self.stream.context());
            entered.admit(&region)?;
            regions.push(region);
        }
        self.stream.context().bind()?;
        let answer = self.handle.gemm(numbers, size, [a, b, c].map(Span::pointer));
        drop(regions);
        Ok(answer.map_err(refusal)?)
    }
}

fn refusal(why: String) -> Unavailable {
    Unavailable::new(
        WHAT,
        why,
        "Install a cuBLAS of the driver's CUDA version, and check that the device's memory isn't full",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_without_it_and_a_relative_path_are_refused_with_a_hint() {
        let empty = tempfile::tempdir().unwrap();
        for (path, why) in [(empty.path(), "without libcublas.so"), (Path::new("libcublas.so"), "is relative")] {
            let reason = Cublas::find(Some(path), None).unwrap_err();
            assert!(reason.why.contains(why) && reason.hint.contains("libcublas.so"), "{reason}");
        }
        std::fs::write(empty.path().join("libcublas.so.13"), "no library").unwrap();
        let reason = Cublas::find(Some(empty.path()), None).unwrap_err();
        assert!(reason.hint.contains("pip install nvidia-cublas"), "{reason}");
    }
}
