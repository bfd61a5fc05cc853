//! The definition of a call: it counts itself first and returns the injected error, if any.

pub(crate) type Code = u32;
pub(crate) type Answer = Result<(), Code>;
/// Any handle.
pub(crate) type Handle = usize;

pub(crate) const INVALID_VALUE: Code = 1;
pub(crate) const OUT_OF_MEMORY: Code = 2;
pub(crate) const NO_DEVICE: Code = 100;
pub(crate) const INVALID_DEVICE: Code = 101;
pub(crate) const INVALID_IMAGE: Code = 200;
pub(crate) const INVALID_CONTEXT: Code = 201;
pub(crate) const UNSUPPORTED_LIMIT: Code = 215;
pub(crate) const INVALID_HANDLE: Code = 400;
pub(crate) const ILLEGAL_STATE: Code = 401;
pub(crate) const NOT_FOUND: Code = 500;
pub(crate) const NOT_READY: Code = 600;
pub(crate) const ILLEGAL_ADDRESS: Code = 700;
pub(crate) const NOT_SUPPORTED: Code = 801;
pub(crate) const CAPTURED: Code = 900;
pub(crate) const CAPTURE_INVALIDATED: Code = 901;

/// Defines calls, each with its body, which runs after the call was counted.
macro_rules! calls {
    ($(fn $name:ident($state:ident $(, $arg:ident: $ty:ty)*) $body:block)*) => {
        $(
            #[doc = concat!("`", stringify!($name), "` of cuda.h.")]
            ///
            /// # Safety
            /// Pointers must be valid as cuda.h says.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($arg: $ty),*) -> $crate::call::Code {
                let mut guard = match $crate::state::enter(stringify!($name)) {
                    Ok(guard) => guard,
                    Err(code) => return code,
                };
                let $state = guard.get();
                #[allow(unused_mut)]
                let mut body = || -> $crate::call::Answer { $body };
                body().err().unwrap_or(0)
            }
        )*
    };
}

pub(crate) fn check_handle(exists: bool) -> Answer {
    if exists { Ok(()) } else { Err(INVALID_HANDLE) }
}

pub(crate) use calls;
