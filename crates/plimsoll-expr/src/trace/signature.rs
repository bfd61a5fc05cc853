//! The numbers of parameters and results that traced closures and typed calls may have.

/// Implements something for each number of parameters, or for each number of results in a tuple: calls `$callback` with pairs of
/// names, as many as there are parameters (0 to 12) or results (1 to 8).
#[doc(hidden)]
#[macro_export]
macro_rules! for_each_signature {
    (parameters: $callback:ident) => {
        $crate::for_each_signature!(@shorter $callback A XA B XB C XC D XD E XE F XF G XG H XH I XI J XJ K XK L XL);
        $callback!();
    };
    (results: $callback:ident) => {
        $crate::for_each_signature!(@shorter $callback A OA B OB C OC D OD E OE F OF G OG H OH);
    };
    (@shorter $callback:ident $first:ident $second:ident $($rest:ident)*) => {
        $callback!($first $second $($rest)*);
        $crate::for_each_signature!(@shorter $callback $($rest)*);
    };
    (@shorter $callback:ident) => {};
}
