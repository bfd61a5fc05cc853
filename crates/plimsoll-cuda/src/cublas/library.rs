//! The table of cuBLAS calls. The library is never closed, because it keeps state in the driver.

use std::ffi::{c_char, c_int, c_void};
use std::path::Path;
use std::sync::Arc;

use super::{Cublas, Numbers};
use crate::library::{ResidentLibrary, calls, check};
use crate::toolkit::children;

/// `cublasStatus_t`; 0 is success.
type Code = c_int;
/// `cublasHandle_t`.
type Raw = *mut c_void;

/// `CUBLAS_OP_N`, `CUBLAS_OP_T` and `CUBLAS_GEMM_DEFAULT` of cublas_api.h.
const NOT_TRANSPOSED: c_int = 0;
const TRANSPOSED: c_int = 1;
const DEFAULT: c_int = -1;
/// `MAJOR_VERSION`, `MINOR_VERSION` and `PATCH_LEVEL` of library_types.h.
const VERSION: [c_int; 3] = [0, 1, 2];

calls! {
    "cublas_api.h", "CUDA 11.4":
    property["cublasGetProperty"](c_int, *mut c_int) -> Code;
    text["cublasGetStatusString"](Code) -> *const c_char;
    create["cublasCreate_v2"](*mut Raw) -> Code;
    destroy["cublasDestroy_v2"](Raw) -> Code;
    stream["cublasSetStream_v2"](Raw, *mut c_void) -> Code;
    gemm["cublasGemmEx"](
        Raw, c_int, c_int, c_int, c_int, c_int, *const c_void, *const c_void, c_int, c_int, *const c_void, c_int, c_int,
        *const c_void, *mut c_void, c_int, c_int, c_int, c_int) -> Code;
}

/// The opened library with its calls.
#[derive(Debug)]
pub(super) struct Library {
    calls: Calls,
    _library: ResidentLibrary,
}

impl Library {
    /// Opens the libraries next to it that it loads by bare name, then the library itself.
    pub(super) fn open(path: &Path) -> Result<Self, String> {
        // cublasLt computes the products; a wheel's library finds it by itself, a copied one may not. Of several major versions the
        // loader takes the one that the library names.
        if let Some(folder) = path.parent().filter(|folder| folder.is_absolute()) {
            for companion in children(folder, |name| name.starts_with("libcublasLt.so.")) {
                let _ = ResidentLibrary::open(&companion);
            }
        }
        let library = ResidentLibrary::open(path)?;
        Ok(Self { calls: Calls::resolve(&library)?, _library: library })
    }

    /// Its version as one number: 130002 is 13.0.2.
    pub(super) fn version(&self) -> Result<u32, String> {
        let mut version = 0;
        for part in VERSION {
            let mut value = 0;
            // SAFETY: the pointer is valid for one write.
            self.check("cublasGetProperty", unsafe { (self.calls.property)(part, &raw mut value) })?;
            version = version * 100 + u32::try_from(value).unwrap_or(0);
        }
        Ok(version)
    }

    fn check(&self, call: &str, code: Code) -> Result<(), String> {
        // SAFETY: according to cublas_api.h, it takes any code and returns null, or a text that ends with a zero byte and is never freed.
        unsafe { check(call, code, self.calls.text) }
    }
}

/// `cudaDataType` of A and B, of C, and `cublasComputeType_t` (library_types.h, cublas_api.h).
fn types(numbers: Numbers) -> [c_int; 3] {
    match numbers {
        Numbers::F64 => [1, 1, 70],
        // CUDA_R_32F, computed as CUBLAS_COMPUTE_32F_FAST_TF32.
        Numbers::Tf32 => [0, 0, 77],
        Numbers::F16 => [2, 2, 68],
        Numbers::Bf16 => [14, 14, 68],
        Numbers::I8 => [3, 10, 72],
    }
}

/// One or zero in the type of a product's scale factors.
union Scale {
    double: f64,
    single: f32,
    whole: i32,
}

fn scales(numbers: Numbers) -> [Scale; 2] {
    match numbers {
        Numbers::F64 => [Scale { double: 1.0 }, Scale { double: 0.0 }],
        Numbers::I8 => [Scale { whole: 1 }, Scale { whole: 0 }],
        Numbers::Tf32 | Numbers::F16 | Numbers::Bf16 => [Scale { single: 1.0 }, Scale { single: 0.0 }],
    }
}

/// The library's state on one stream, destroyed when dropped.
pub(super) struct Handle {
    cublas: Arc<Cublas>,
    raw: Raw,
}

impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Handle")
    }
}

impl Handle {
    /// Creates state in the current context, whose calls go to `stream`, a live stream of that context.
    pub(super) fn new(cublas: &Arc<Cublas>, stream: *mut c_void) -> Result<Self, String> {
        let mut made = Self { cublas: Arc::clone(cublas), raw: std::ptr::null_mut() };
        let calls = &cublas.library.calls;
        // SAFETY: the pointer is valid for one write.
        cublas.library.check("cublasCreate", unsafe { (calls.create)(&raw mut made.raw) })?;
        // SAFETY: the state is live; an invalid stream is refused.
        cublas.library.check("cublasSetStream", unsafe { (calls.stream)(made.raw, stream) })?;
        Ok(made)
    }

    /// C = Aᵀ · B, all column-major with n rows and columns. The caller has checked that the arrays are long enough.
    pub(super) fn gemm(&self, numbers: Numbers, n: c_int, [a, b, c]: [u64; 3]) -> Result<(), String> {
        let [factors, sums, compute] = types(numbers);
        let [one, zero] = scales(numbers);
        let pointer = |address: u64| address as usize as *mut c_void;
        // SAFETY: the state is live; both scales live until after the call, which copies them, and have the type that `compute`
        // requires; the arrays are device memory with room for n · n elements of their types.
        let code = unsafe {
            (self.cublas.library.calls.gemm)(
                self.raw,
                TRANSPOSED,
                NOT_TRANSPOSED,
                n,
                n,
                n,
                (&raw const one).cast(),
                pointer(a),
                factors,
                n,
                pointer(b),
                factors,
                n,
                (&raw const zero).cast(),
                pointer(c),
                sums,
                n,
                compute,
                DEFAULT,
            )
        };
        self.cublas.library.check("cublasGemmEx", code)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if !self.raw.is_null() {
            // SAFETY: the state is live and not used again. A failure can't be handled here.
            unsafe { (self.cublas.library.calls.destroy)(self.raw) };
        }
    }
}
