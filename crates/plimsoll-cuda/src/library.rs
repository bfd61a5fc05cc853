//! Libraries of the toolkit that are opened while running and never closed, because they keep state of their own in the driver
//! or are found by name among the libraries that are loaded: opening one, and the table of its calls. What is called with what is
//! `nvrtc`'s, `cublas`' and `cupti`'s.

use std::fmt;
use std::mem::ManuallyDrop;
use std::path::Path;

use libloading::os::unix::{self, RTLD_LOCAL, RTLD_NOW};

/// A library that stays open as long as the process runs.
pub(crate) struct Kept(ManuallyDrop<unix::Library>);

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Kept")
    }
}

impl Kept {
    /// Opens a library that a search found.
    pub(crate) fn open(path: &Path) -> Result<Self, String> {
        // SAFETY: loading runs the library's initialisers. The path is absolute, in a folder that the user or the system chose, or
        // a bare name that the loader looks up in the system's folders; never in the current one.
        let library = unsafe { unix::Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) };
        library.map(|library| Self(ManuallyDrop::new(library))).map_err(|error| error.to_string())
    }

    /// A function of the library; it stays valid, since the library is never closed. Where it has none of that name, `needed` says
    /// which version brings it.
    ///
    /// # Safety
    /// `F` must be the type of the function that the symbol names.
    pub(crate) unsafe fn symbol<F: Copy>(&self, name: &str, needed: &str) -> Result<F, String> {
        // SAFETY: this function's own obligation.
        let found = unsafe { self.0.get::<F>(name.as_bytes()) };
        found.map(|found| *found).map_err(|_| format!("it has no {name}: CUDA {needed} or newer is needed"))
    }
}

/// Declares a struct `Calls`, the table of a library's calls: each by its name in the library's header and its type there, as the
/// header of every CUDA from `needed` on has it.
macro_rules! calls {
    ($header:literal, $needed:literal: $($name:ident [$symbol:literal] ($($ty:ty),*) -> $result:ty;)*) => {
        struct Calls { $($name: unsafe extern "C" fn($($ty),*) -> $result,)* }

        impl Calls {
            fn resolve(library: &$crate::library::Kept) -> Result<Self, String> {
                Ok(Self { $(
                    // SAFETY: the type is that of the header for this symbol.
                    $name: unsafe { library.symbol($symbol, $needed) }?,
                )* })
            }
        }
    };
}

pub(crate) use calls;
