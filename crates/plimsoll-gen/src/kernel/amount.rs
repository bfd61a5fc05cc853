//! Quantities computed from a launch's arguments and configuration: extents and ranges are built from them.

use std::fmt;

use super::KernelDesc;

/// A quantity of a launch. Sums and products saturate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// A constant.
    Is(u64),
    /// The argument for the parameter of this name.
    Of(&'static str),
    /// Blocks of the grid.
    Blocks,
    /// Threads per block: the compiled block size if there is one.
    Threads,
    /// Blocks of a cluster, 1 without clusters.
    Cluster,
    /// A dimension of the grid, in blocks: x, y, z.
    Grid(usize),
    /// A dimension of a block, in threads: x, y, z.
    Block(usize),
    /// Bytes of dynamic shared memory per block.
    Shared,
    /// Most elements that the launch's grid processes correctly ([`KernelDesc::most_elements`]).
    Covered,
    /// Bytes of an element of the kernel's arrays.
    Element,
    /// Bytes per access of one thread.
    Vector,
    /// Vectors that a thread holds at once.
    Unroll,
    /// Arrays read.
    Inputs,
    /// Arrays written in full.
    Outputs,
    /// The sum of these.
    Sum(&'static [Amount]),
    /// The product of these.
    Product(&'static [Amount]),
    /// The smallest of these.
    Smallest(&'static [Amount]),
    /// The first minus the second, at least 0.
    Less(&'static Amount, &'static Amount),
    /// The first divided by the second, rounded down; the largest `u128` for a division by 0.
    Over(&'static Amount, &'static Amount),
    /// Total length of several arrays a pitch apart, up to the end of the last: 0 without arrays.
    Pitched {
        /// Number of arrays.
        arrays: &'static Amount,
        /// Distance from the start of one array to the start of the next.
        pitch: &'static Amount,
        /// Length of each.
        each: &'static Amount,
    },
}

/// The configuration of a launch.
#[derive(Clone, Copy)]
pub struct Setting<'a> {
    /// The kernel that is launched.
    pub kernel: &'a KernelDesc,
    /// Blocks in x, y, z.
    pub grid: [u32; 3],
    /// Threads of a block in x, y, z.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory per block.
    pub shared: u32,
    /// Blocks of a cluster; 0 and 1 mean no clusters.
    pub cluster: u32,
    /// Looks up the argument of a numeric parameter by name.
    pub number: &'a dyn Fn(&str) -> Option<u64>,
}

impl Setting<'_> {
    fn blocks(&self) -> u64 {
        product(self.grid)
    }

    /// A kernel with a compiled block size computes its indices from that size, even if fewer threads are launched.
    fn threads(&self) -> u64 {
        if self.kernel.threads_fixed { self.kernel.threads.into() } else { product(self.block) }
    }

    /// The value of an amount in this launch; `None` if it depends on an argument that is missing.
    #[must_use]
    pub fn amount(&self, amount: Amount) -> Option<u128> {
        let value = |amount: &Amount| self.amount(*amount);
        Some(match amount {
            Amount::Is(number) => number.into(),
            Amount::Of(name) => (self.number)(name)?.into(),
            Amount::Blocks => self.blocks().into(),
            Amount::Threads => self.threads().into(),
            Amount::Cluster => self.cluster.max(1).into(),
            Amount::Grid(side) => (*self.grid.get(side)?).into(),
            Amount::Block(side) => (*self.block.get(side)?).into(),
            Amount::Shared => self.shared.into(),
            Amount::Covered => self.kernel.most_elements(self.blocks(), self.threads()).into(),
            Amount::Element => self.kernel.element.bytes().into(),
            Amount::Vector => self.kernel.vector_bytes.into(),
            Amount::Unroll => self.kernel.unroll.into(),
            Amount::Inputs => self.kernel.inputs.into(),
            Amount::Outputs => self.kernel.outputs.into(),
            Amount::Sum(all) => all.iter().try_fold(0, |sum: u128, next| Some(sum.saturating_add(value(next)?)))?,
            Amount::Product(all) => {
                all.iter().try_fold(1, |left: u128, next| Some(left.saturating_mul(value(next)?)))?
            }
            Amount::Smallest(all) => all.iter().try_fold(u128::MAX, |least, next| Some(least.min(value(next)?)))?,
            Amount::Less(from, less) => value(from)?.saturating_sub(value(less)?),
            Amount::Over(whole, part) => value(whole)?.checked_div(value(part)?).unwrap_or(u128::MAX),
            Amount::Pitched { arrays, pitch, each } => match value(arrays)?.checked_sub(1) {
                None => 0,
                Some(before) => before.saturating_mul(value(pitch)?).saturating_add(value(each)?),
            },
        })
    }
}

fn product(sides: [u32; 3]) -> u64 {
    sides.iter().fold(1, |product: u64, side| product.saturating_mul(u64::from(*side)))
}

impl Amount {
    /// The names of the parameters that it depends on.
    #[must_use]
    pub fn names(self) -> Vec<&'static str> {
        match self {
            Self::Of(name) => vec![name],
            Self::Sum(all) | Self::Product(all) | Self::Smallest(all) => {
                all.iter().flat_map(|amount| amount.names()).collect()
            }
            Self::Less(one, other) | Self::Over(one, other) => [one.names(), other.names()].concat(),
            Self::Pitched { arrays, pitch, each } => [arrays.names(), pitch.names(), each.names()].concat(),
            _ => Vec::new(),
        }
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let write_list = |f: &mut fmt::Formatter<'_>, all: &[Self], between: &str| {
            all.iter().enumerate().try_for_each(|(place, amount)| {
                f.write_str(if place > 0 { between } else { "" })?;
                match amount {
                    Self::Sum(_) | Self::Less(..) => write!(f, "({amount})"),
                    _ => write!(f, "{amount}"),
                }
            })
        };
        match self {
            Self::Is(number) => write!(f, "{number}"),
            Self::Of(name) => f.write_str(name),
            Self::Blocks => f.write_str("blocks"),
            Self::Threads => f.write_str("threads per block"),
            Self::Cluster => f.write_str("blocks of the cluster"),
            Self::Grid(side) => write!(f, "blocks in {}", ["x", "y", "z"][*side.min(&2)]),
            Self::Block(side) => write!(f, "threads in {}", ["x", "y", "z"][*side.min(&2)]),
            Self::Shared => f.write_str("bytes of shared memory"),
            Self::Covered => f.write_str("elements within reach of the grid and the indices"),
            Self::Element => f.write_str("bytes per element"),
            Self::Vector => f.write_str("bytes per access"),
            Self::Unroll => f.write_str("unroll factor"),
            Self::Inputs => f.write_str("inputs"),
            Self::Outputs => f.write_str("outputs"),
            Self::Sum(all) => write_list(f, all, " + "),
            Self::Product(all) => write_list(f, all, " · "),
            Self::Smallest(all) => {
                f.write_str("the smallest of ")?;
                write_list(f, all, ", ")
            }
            Self::Less(from, less) => write!(f, "{from} − {less}"),
            Self::Over(whole, part) => write!(f, "{whole} / ({part})"),
            Self::Pitched { arrays, pitch, each } => write!(f, "({arrays} − 1) · {pitch} + {each}"),
        }
    }
}

/// A condition on a number. If it is violated, a kernel hangs, divides by zero, leaves its arrays or computes wrong results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// At least this.
    Least(Amount),
    /// At most this.
    Most(Amount),
    /// Exactly this.
    Exactly(Amount),
    /// A multiple of this; 0 counts as one.
    Multiple(Amount),
    /// A power of two.
    PowerOfTwo,
}

impl Bound {
    /// Whether a number satisfies it in a launch; false if the amount can't be computed.
    #[must_use]
    pub fn holds(self, value: u64, setting: &Setting<'_>) -> bool {
        let wide = u128::from(value);
        match self {
            Self::Least(least) => setting.amount(least).is_some_and(|least| wide >= least),
            Self::Most(most) => setting.amount(most).is_some_and(|most| wide <= most),
            Self::Exactly(amount) => setting.amount(amount) == Some(wide),
            Self::Multiple(base) => setting.amount(base).is_some_and(|base| base > 0 && wide.is_multiple_of(base)),
            Self::PowerOfTwo => value.is_power_of_two(),
        }
    }

    /// The amount it compares with.
    #[must_use]
    pub fn amount(self) -> Option<Amount> {
        match self {
            Self::Least(amount) | Self::Most(amount) | Self::Exactly(amount) | Self::Multiple(amount) => Some(amount),
            Self::PowerOfTwo => None,
        }
    }

    /// In words, with the value in a launch where that isn't a constant.
    #[must_use]
    pub fn words(self, setting: &Setting<'_>) -> String {
        let value = |amount: Amount| match (amount, setting.amount(amount)) {
            (Amount::Is(number), _) => number.to_string(),
            (_, Some(found)) => format!("{found} ({amount})"),
            (_, None) => amount.to_string(),
        };
        match self {
            Self::Least(least) => format!("at least {}", value(least)),
            Self::Most(most) => format!("at most {}", value(most)),
            Self::Exactly(amount) => value(amount),
            Self::Multiple(base) => format!("a multiple of {}", value(base)),
            Self::PowerOfTwo => "a power of two".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Amount::{Blocks, Is, Less, Of, Over, Pitched, Product, Smallest, Sum, Threads};
    use super::*;

    /// Runs `check` in a launch of 6 blocks of 64 threads with n = 7.
    fn in_sample_launch<T>(check: impl FnOnce(&Setting<'_>) -> T) -> T {
        let kernel =
            KernelDesc { threads_fixed: false, ..KernelDesc::new(&crate::kernel::check::SOURCE, String::new(), 32) };
        let number = |name: &str| (name == "n").then_some(7);
        let setting =
            Setting { kernel: &kernel, grid: [3, 2, 1], block: [64, 1, 1], shared: 0, cluster: 0, number: &number };
        check(&setting)
    }

    #[test]
    fn amounts_saturate_instead_of_overflowing() {
        in_sample_launch(|setting| {
            let value = |amount| setting.amount(amount);
            assert_eq!(value(Sum(&[Is(2), Of("n"), Blocks])), Some(15));
            assert_eq!(value(Product(&[Of("n"), Threads])), Some(448));
            assert_eq!(value(Of("m")), None);
            assert_eq!(value(Sum(&[Is(1), Of("m")])), None);
            assert_eq!(value(Product(&[Is(u64::MAX), Is(u64::MAX), Is(u64::MAX)])), Some(u128::MAX));
            assert_eq!((value(Less(&Is(3), &Is(5))), value(Less(&Is(5), &Is(3)))), (Some(0), Some(2)));
            assert_eq!((value(Over(&Is(17), &Of("n"))), value(Over(&Is(1), &Is(0)))), (Some(2), Some(u128::MAX)));
            assert_eq!(value(Smallest(&[Is(9), Of("n")])), Some(7));
            let arrays = |arrays| value(Pitched { arrays, pitch: &Is(100), each: &Of("n") });
            assert_eq!((arrays(&Is(0)), arrays(&Is(1)), arrays(&Is(3))), (Some(0), Some(7), Some(207)));
        });
    }

    #[test]
    fn bounds_include_their_limits_and_exclude_the_next_value() {
        in_sample_launch(|setting| {
            let holds = |bound: Bound, values: [u64; 3]| values.map(|value| bound.holds(value, setting));
            assert_eq!(holds(Bound::Least(Of("n")), [6, 7, 8]), [false, true, true]);
            assert_eq!(holds(Bound::Most(Of("n")), [6, 7, 8]), [true, true, false]);
            assert_eq!(holds(Bound::Exactly(Of("n")), [6, 7, 8]), [false, true, false]);
            assert_eq!(holds(Bound::Multiple(Of("n")), [0, 13, 14]), [true, false, true]);
            assert_eq!(holds(Bound::PowerOfTwo, [0, 1, 6]), [false, true, false]);
            assert_eq!(holds(Bound::Most(Of("m")), [0, 1, 2]), [false; 3]);
            assert_eq!(holds(Bound::Multiple(Is(0)), [0, 1, 2]), [false; 3]);
            assert_eq!(Bound::Most(Product(&[Is(4), Of("n")])).words(setting), "at most 28 (4 · n)");
            assert_eq!(Bound::Least(Is(1)).words(setting), "at least 1");
        });
    }
}
