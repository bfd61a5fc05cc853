//! Toolkit libraries opened at run time, and tables of their functions. They are never closed, because they keep state in the
//! driver or other code finds them by name among the loaded libraries. The calls are in `nvrtc`, `cublas`, `nccl` and `cupti`.

use std::ffi::{CStr, c_char, c_int};
use std::fmt;
use std::mem::ManuallyDrop;
use std::path::Path;

use libloading::os::unix::{self, RTLD_LOCAL, RTLD_NOW};

/// A library that stays open as long as the process runs.
pub(crate) struct ResidentLibrary(ManuallyDrop<unix::Library>);

impl fmt::Debug for ResidentLibrary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ResidentLibrary")
    }
}

impl ResidentLibrary {
    /// Opens a library found by a search.
    pub(crate) fn open(path: &Path) -> Result<Self, String> {
        // SAFETY: loading runs the library's initialisers. The path is absolute, in a folder that the user or the system chose, or
        // a bare name that the loader looks up in the system's folders, never in the current folder.
        let library = unsafe { unix::Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) };
        library.map(|library| Self(ManuallyDrop::new(library))).map_err(|error| error.to_string())
    }

    /// A function of the library; it stays valid, since the library is never closed. If the library lacks it, the error names
    /// `needed`, the first version of the software that has it.
    ///
    /// # Safety
    /// `F` must be the type of the function that the symbol names.
    pub(crate) unsafe fn symbol<F: Copy>(&self, name: &str, needed: &str) -> Result<F, String> {
        // SAFETY: the caller guarantees the type.
        let found = unsafe { self.0.get::<F>(name.as_bytes()) };
        found.map(|found| *found).map_err(|_| format!("it has no {name}: {needed} or newer is needed"))
    }
}

/// Turns the code that `call` returned into an error with the library's message; 0 is success.
///
/// # Safety
/// `describe` takes any code and returns null, or a text that ends with a zero byte and is never freed.
pub(crate) unsafe fn check(
    call: &str,
    code: c_int,
    describe: unsafe extern "C" fn(c_int) -> *const c_char,
) -> Result<(), String> {
    if code == 0 {
        return Ok(());
    }
    // SAFETY: by this function's contract.
    let text = unsafe { describe(code) };
    if text.is_null() {
        return Err(format!("{call} returned error {code}"));
    }
    // SAFETY: not null, and by this function's contract a text that ends with a zero byte and is never freed.
    let text = unsafe { CStr::from_ptr(text) };
    Err(format!("{call}: {}", text.to_string_lossy()))
}

/// Declares a struct `Calls`, the table of a library's functions, each with its symbol and its type as declared in the library's
/// header since `needed`.
macro_rules! calls {
    ($header:literal, $needed:literal: $($name:ident [$symbol:literal] ($($ty:ty),*) -> $result:ty;)*) => {
        struct Calls { $($name: unsafe extern "C" fn($($ty),*) -> $result,)* }

        impl std::fmt::Debug for Calls {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("Calls")
            }
        }

        impl Calls {
            fn resolve(library: &$crate::library::ResidentLibrary) -> Result<Self, String> {
                Ok(Self { $(
                    // SAFETY: the type is the header's for this symbol.
                    $name: unsafe { library.symbol($symbol, $needed) }?,
                )* })
            }
        }
    };
}

pub(crate) use calls;
