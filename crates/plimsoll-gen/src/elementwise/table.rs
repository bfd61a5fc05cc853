//! Plans found by measurement: which vectors, blocks and hints are fastest for a class of expression, by the bytes moved.

use plimsoll_expr::cost::Class as Operation;
use plimsoll_expr::function::Function;
use plimsoll_expr::op::Unary;
use plimsoll_expr::{Cost, Graph};
use serde::{Deserialize, Serialize};

use super::spec::{Dependent, Form, is_copy};

/// Operations per element up to which memory alone decides.
const FEW: u64 = 16;
/// Functions of which results of 16 bits take some four instructions per element beside its loads and stores: what the special function
/// unit computes, with a factor before or behind it.
const SHORT: [Unary; 5] = [Unary::Exp, Unary::Exp2, Unary::Log, Unary::Log2, Unary::Log10];
/// Those of them of which results in f32 take hardly more.
const SHORT_OF_32_BITS: [Unary; 2] = [Unary::Exp, Unary::Exp2];

/// What an expression computes, as far as the choice of a plan goes.
struct Weight {
    /// Operations per element.
    operations: u64,
    /// Those of them that take many instructions: functions, quotients, roots.
    long: u64,
    /// The functions among them.
    functions: Vec<Function>,
}

impl Weight {
    fn of(graph: &Graph) -> Self {
        let operations = Cost::of(graph).operations;
        let mut weight = Self { operations: operations.values().sum(), long: 0, functions: Vec::new() };
        for ((class, _), count) in operations {
            if let Operation::Function(function) = class {
                weight.functions.extend((0..count).map(|_| function));
            }
            if matches!(class, Operation::Function(_) | Operation::Divide | Operation::Root) {
                weight.long += count;
            }
        }
        weight
    }
}

/// Whether an expression is as short as those that rows are measured with: at most one function, and few other operations.
pub(super) fn is_as_short_as_measured(graph: &Graph) -> bool {
    let weight = Weight::of(graph);
    weight.long <= 1 && weight.operations <= FEW
}

/// How much is to be done with an element, as far as the choice of a plan goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Work {
    /// Nothing: its bytes are moved, whatever they mean.
    Copy,
    /// A few operations, and no function, quotient or root.
    Arithmetic,
    /// As few operations, and one of them an exponential with results of up to 32 bits or a logarithm with results of up to 16: bulk copies still gain.
    Short,
    /// Other functions, quotients, roots, or a long chain of arithmetic, so that issue slots count as well as memory.
    Long,
}

impl Work {
    fn of(graph: &Graph) -> Self {
        if is_copy(graph) {
            return Self::Copy;
        }
        let weight = Weight::of(graph);
        let few = weight.operations <= FEW;
        let short = match graph.outputs().iter().map(|output| output.dtype.bytes()).max() {
            Some(1 | 2) => &SHORT[..],
            Some(4) => &SHORT_OF_32_BITS,
            _ => &[],
        };
        match weight.functions[..] {
            [] if few && weight.long == 0 => Self::Arithmetic,
            [Function::Unary(function)] if few && weight.long == 1 && short.contains(&function) => Self::Short,
            _ => Self::Long,
        }
    }

    /// Issue slots count.
    const fn is_function(self) -> bool {
        matches!(self, Self::Short | Self::Long)
    }
}

/// What expressions have in common that want the same plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Class {
    /// Tensors read.
    pub inputs: u32,
    /// Tensors written.
    pub outputs: u32,
    /// Bytes of the smallest element.
    pub narrowest: u32,
    /// Bytes of the largest element.
    pub widest: u32,
    /// What is done.
    pub work: Work,
}

impl Class {
    /// The class of an expression.
    #[must_use]
    pub fn of(graph: &Graph) -> Self {
        let work = Work::of(graph);
        // Copies of all types are the same.
        let bytes = if work == Work::Copy { vec![1] } else { super::spec::element_bytes(graph) };
        Self {
            inputs: graph.reads().iter().filter(|read| **read).count() as u32,
            outputs: graph.outputs().len() as u32,
            narrowest: bytes.iter().copied().min().unwrap_or(1),
            widest: bytes.iter().copied().max().unwrap_or(1),
            work,
        }
    }
}

/// One measured choice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// Of which expressions.
    pub class: Class,
    /// Up to how many bytes moved; the smallest that is enough counts, and beyond the largest that one.
    pub most_bytes: u64,
    /// For launches that may overlap.
    pub dependent: bool,
    /// For data that L2 holds.
    #[serde(default, skip_serializing_if = "is_cold")]
    pub cached: bool,
    /// [`Form::Flat`] or [`Form::Bulk`].
    pub form: Form,
    /// Bytes per access of the narrowest tensor.
    pub vector: u32,
    /// Accesses per tensor and thread.
    pub unroll: u32,
    /// Threads per block.
    pub threads: u32,
    /// Cache hints as bits: 1 loads past L1, or bulk copies whose lines L2 evicts last, 2 streaming stores.
    pub hints: u32,
    /// When the next kernel may begin, for launches that may overlap.
    pub release: Dependent,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_cold(cached: &bool) -> bool {
    !cached
}

/// What a row is sought for.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// The expression's class.
    pub class: Class,
    /// Bytes moved.
    pub bytes: u64,
    /// A row for launches that may overlap with their neighbours, if the class has one.
    pub dependent: bool,
    /// L2 holds the data.
    pub cached: bool,
    /// [`Form::Bulk`] is possible.
    pub bulk: bool,
}

/// Measured choices of one device. The default has none: then the bytes-in-flight rule chooses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// Where it is from, as shown in reasons: "measured on NVIDIA H200".
    pub source: String,
    /// The choices.
    pub rows: Vec<Row>,
}

/// A text that is no table.
#[derive(Debug, thiserror::Error)]
#[error("no table of plans: {0}. 'plimsoll tune' makes one")]
pub struct TableError(#[from] serde_json::Error);

impl Table {
    /// Reads what [`Table::to_json`] writes.
    ///
    /// # Errors
    /// If it is something else.
    pub fn from_json(text: &str) -> Result<Self, TableError> {
        Ok(serde_json::from_str(text)?)
    }

    /// As text.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// The shipped table of a device by its name, as the driver gives it, and its compute capability times ten; the default where
    /// none is shipped.
    #[must_use]
    pub fn for_device(name: &str, capability: u32) -> Self {
        // A GH200 is another machine.
        if capability == 90 && name.split_whitespace().any(|word| word == "H200") {
            // A test reads it.
            return Self::from_json(include_str!("h200.json")).unwrap_or_default();
        }
        Self::default()
    }

    /// With another table's rows of the classes that it has none of.
    #[must_use]
    pub fn with_classes_of(mut self, other: Self) -> Self {
        let new = |row: &Row| self.rows.iter().all(|own| own.class != row.class);
        let rows: Vec<Row> = other.rows.into_iter().filter(new).collect();
        self.rows.extend(rows);
        self
    }

    /// The row for a class and a number of bytes moved: of the class itself or else of the one that is most like it, and the
    /// smallest number of bytes that is enough. Rows for cached data come before others of the same size. [`Form::Bulk`]
    /// where it is possible and was measured to be faster.
    ///
    /// Rows for dependent launches are for their own class alone; other classes get a row for plain launches. Dependent rows give a thread
    /// many elements, because the launch before hides the time that this takes. It doesn't hide it if an element takes longer: on an H200
    /// the row of `a*x + y` for 4 to 16 MiB made functions of two inputs up to four times slower than a plain launch.
    #[must_use]
    pub fn row(&self, wanted: Wanted) -> Option<&Row> {
        let measured = |row: &Row| row.dependent && row.class == wanted.class;
        let dependent = wanted.dependent && self.rows.iter().any(measured);
        self.nearest(Wanted { dependent, ..wanted })
    }

    fn nearest(&self, wanted: Wanted) -> Option<&Row> {
        let allowed = |row: &&Row| {
            row.dependent == wanted.dependent
                && (wanted.bulk || row.form != Form::Bulk)
                && (wanted.cached || !row.cached)
        };
        let distance = |row: &Row| wanted.class.distance(row.class);
        // Of two classes that are as like the first in their order.
        let nearest = self.rows.iter().filter(allowed).map(|row| (distance(row), row.class)).min()?;
        let rows = || self.rows.iter().filter(allowed).filter(|row| (distance(row), row.class) == nearest);
        let most = rows().map(|row| row.most_bytes).filter(|&most| most >= wanted.bytes).min();
        let most = most.or_else(|| rows().map(|row| row.most_bytes).max())?;
        rows().rev().filter(|row| row.most_bytes == most).max_by_key(|row| (row.cached, row.form == Form::Bulk))
    }
}

impl Class {
    /// How unlike another class is: 0 for the same. Other numbers of tensors count most, then functions, then sizes of elements, as
    /// vectors are counted in bytes, and at last what else is done. Of copies sizes mean nothing, and nothing else is like them.
    fn distance(self, other: Self) -> u32 {
        let log = |bytes: u32| bytes.max(1).ilog2();
        let copies = [self.work, other.work].map(|work| work == Work::Copy);
        let apart = |a, b| if copies.contains(&true) { 0 } else { log(a).abs_diff(log(b)) };
        16 * (self.inputs.abs_diff(other.inputs) + self.outputs.abs_diff(other.outputs))
            + 8 * u32::from(self.work.is_function() != other.work.is_function())
            + u32::from(self.work != other.work)
            + 12 * u32::from(copies[0] != copies[1])
            + 4 * (apart(self.narrowest, other.narrowest) + apart(self.widest, other.widest))
    }
}

/// Rows as `plimsoll tune` writes them that no measurement changes any more.
#[cfg(test)]
pub(super) fn example() -> Table {
    Table::from_json(include_str!("example.json")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use plimsoll_expr::{DType, Names, parse};

    use super::*;

    const ADD: Class = Class { inputs: 1, outputs: 1, narrowest: 2, widest: 2, work: Work::Arithmetic };

    #[test]
    fn the_shipped_table_is_read_and_written_back() {
        let table = Table::for_device("NVIDIA H200", 90);
        assert!(!table.rows.is_empty());
        assert_eq!(Table::from_json(&table.to_json()).unwrap(), table);
        let cached = Wanted { class: ADD, bytes: 8 << 20, dependent: true, bulk: true, cached: true };
        assert!(table.row(cached).is_some_and(|row| row.cached && row.dependent));
        assert_eq!(Table::for_device("NVIDIA GH200 480GB", 90), Table::default());
        assert!(Table::from_json("{}").unwrap_err().to_string().contains("plimsoll tune"));
    }

    fn class(text: &str, dtype: DType) -> Class {
        Class::of(&parse(text, &Names::all(dtype)).unwrap())
    }

    #[test]
    fn what_is_done_with_an_element_makes_the_class() {
        assert_eq!(class("x", DType::F64), class("x", DType::U8));
        let work = [
            ("x", Work::Copy),
            ("x + 42", Work::Arithmetic),
            ("x*x + min(x, 2)", Work::Arithmetic),
            ("x/3", Work::Long),
            ("sqrt(x)", Work::Long),
            ("exp(x)/x", Work::Long),
            ("0.5*exp(x)", Work::Short),
            ("log10(x + 1)", Work::Short),
            ("exp(log(x))", Work::Long),
            ("log(x) + log(y)", Work::Long),
            ("erf(x)", Work::Long),
        ];
        for (text, expected) in work {
            assert_eq!(class(text, DType::Bf16).work, expected, "{text}");
        }
        assert_eq!(class("exp2(x)", DType::F32).work, Work::Short);
        assert_eq!((class("log(x)", DType::F32).work, class("exp(x)", DType::F64).work), (Work::Long, Work::Long));
        let long = format!("x{}", " * x + 1.5".repeat(20));
        assert_eq!(class(&long, DType::F32).work, Work::Long);
        assert_eq!(class(&format!("exp({long})"), DType::F32).work, Work::Long);
    }

    #[test]
    fn a_table_without_rows_for_a_work_has_those_of_the_nearest() {
        let table = Table::for_device("NVIDIA H200", 90);
        let row =
            |class, bulk| table.row(Wanted { class, bytes: 2 << 30, dependent: false, bulk, cached: false }).unwrap();
        let exp = class("exp(x)", DType::Bf16);
        assert_eq!((row(exp, true).class, row(exp, true).form), (exp, Form::Bulk));
        // Where bulk copies are impossible there is a row as well, and for as many bytes.
        assert_eq!((row(exp, false).form, row(exp, false).most_bytes), (Form::Flat, row(exp, true).most_bytes));
        let wide = class("exp(x)", DType::F32);
        assert_eq!((row(wide, true).class, row(wide, true).form), (wide, Form::Bulk));
        assert_eq!((row(wide, false).class, row(wide, false).form), (wide, Form::Flat));
        assert_eq!(row(class("exp(x)", DType::F64), true).class, class("erf(x)", DType::F32));
        assert_eq!(row(class("exp(x)", DType::F16), true).class, exp);
        assert_eq!(row(class("~x", DType::U8), true).class, class("x + 1", DType::Bf16));
        assert_eq!(row(class("x + 1", DType::F64), true).class, class("x + 1", DType::F32));
        let mut old = Table::for_device("NVIDIA H200", 90);
        old.rows.retain(|row| row.class.work != Work::Copy);
        let copy =
            Wanted { class: class("x", DType::F32), bytes: 2 << 30, dependent: false, bulk: true, cached: false };
        assert_eq!(old.row(copy).unwrap().class.work, Work::Arithmetic);
    }

    #[test]
    fn the_shipped_table_has_one_row_for_every_size_of_a_class_and_form_and_one_without_bulk_copies() {
        let table = Table::for_device("NVIDIA H200", 90);
        for (place, row) in table.rows.iter().enumerate() {
            let same = |other: &&Row| {
                (other.class, other.dependent, other.cached) == (row.class, row.dependent, row.cached)
                    && (other.most_bytes, other.form) == (row.most_bytes, row.form)
            };
            assert_eq!(table.rows.iter().position(|other| same(&other)), Some(place), "{row:?}");
            assert_eq!(row.release == Dependent::No, !row.dependent, "{row:?}");
            let wanted = Wanted {
                class: row.class,
                bytes: row.most_bytes,
                dependent: row.dependent,
                bulk: false,
                cached: false,
            };
            let found = table.row(wanted).unwrap();
            assert_eq!((found.form, found.class), (Form::Flat, row.class), "{row:?}");
        }
    }

    #[test]
    fn rows_are_chosen_by_size_launch_and_likeness() {
        let table = example();
        let row =
            |class, bytes, dependent, bulk| table.row(Wanted { class, bytes, dependent, bulk, cached: false }).unwrap();
        assert_eq!(row(ADD, 1 << 20, false, true).threads, 256);
        assert_eq!(row(ADD, 1 << 40, false, true).form, Form::Bulk);
        assert_eq!(row(ADD, 1 << 40, false, false).form, Form::Flat);
        assert_eq!(row(ADD, 1 << 20, true, true).release, Dependent::Late);
        let adam = Class { inputs: 4, outputs: 3, narrowest: 2, widest: 4, work: Work::Long };
        assert_eq!(row(adam, 1 << 30, false, true).class.inputs, 2);
        let wide = Class { narrowest: 4, widest: 4, ..ADD };
        assert_eq!(row(wide, 1 << 30, false, true), row(ADD, 1 << 30, false, true));
    }

    #[test]
    fn a_larger_launch_than_any_measured_takes_the_largest_row() {
        let mut table = example();
        table.rows.retain(|row| row.most_bytes <= 16 << 20 && !row.dependent);
        let most = |bytes, dependent| {
            table.row(Wanted { class: ADD, bytes, dependent, bulk: true, cached: false }).unwrap().most_bytes
        };
        assert_eq!(most(1 << 40, false), 16 << 20);
        assert_eq!(most(1 << 20, true), 4 << 20);
    }

    #[test]
    fn a_table_of_some_classes_leaves_the_others() {
        let shipped = Table::for_device("NVIDIA H200", 90);
        let row = shipped.rows.iter().find(|row| row.class == ADD).unwrap();
        let own = Table { source: "measured here".to_owned(), rows: vec![Row { threads: 32, ..row.clone() }] };
        let both = own.clone().with_classes_of(shipped.clone());
        assert_eq!((both.source.as_str(), &both.rows[0]), ("measured here", &own.rows[0]));
        assert_eq!(both.rows.iter().filter(|row| row.class == ADD).count(), 1);
        let others = shipped.rows.iter().filter(|row| row.class != ADD).count();
        assert_eq!(both.rows.len(), 1 + others);
    }

    #[test]
    fn rows_for_cached_data_are_taken_only_where_they_are() {
        let mut table = example();
        let wanted = |bytes, cached| Wanted { class: ADD, bytes, dependent: false, cached, bulk: false };
        let cold = table.row(wanted(10 << 20, false)).unwrap().clone();
        table.rows.push(Row { unroll: 2 * cold.unroll, cached: true, ..cold.clone() });
        assert_eq!(table.row(wanted(10 << 20, false)), Some(&cold));
        assert_eq!(table.row(wanted(10 << 20, true)).unwrap().unroll, 2 * cold.unroll);
        // Smaller and larger ones keep their rows.
        for bytes in [1 << 20, 1 << 40] {
            assert_eq!(table.row(wanted(bytes, true)), table.row(wanted(bytes, false)));
        }
        assert_eq!(Table::from_json(&table.to_json()).unwrap(), table);
    }
}
