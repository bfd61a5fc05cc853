//! Measured plans: the fastest vectors, blocks and hints for a class of expressions, by bytes moved.

use plimsoll_expr::Graph;
use serde::{Deserialize, Serialize};

use super::Tier;
use super::spec::{Dependent, Form, is_copy};
use super::weight::{Weight, weight};

/// The amount of work per element, by its weight: the time of its arithmetic as a share of memory's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Work {
    /// None: bytes are only moved.
    Copy,
    /// Up to [`Work::ARITHMETIC`]: a few operations.
    Arithmetic,
    /// Up to [`Work::SHORT`], and results that soon follow their operands ([`Work::LATENCY`]): an exponential, or a logarithm with a
    /// 16-bit result. Bulk copies gain even in single elements, one after the other.
    Short,
    /// Up to [`Work::LONG`]: other functions, so that issue slots matter as well as memory.
    Long,
    /// More: several functions. Arithmetic decides.
    Heavy,
}

impl Work {
    /// Greatest weight of [`Work::Arithmetic`].
    pub const ARITHMETIC: f64 = 0.14;
    /// Greatest weight of [`Work::Short`].
    pub const SHORT: f64 = 0.35;
    /// Greatest latency of [`Work::Short`], in clocks.
    pub const LATENCY: f64 = 58.0;
    /// Greatest weight of [`Work::Long`].
    pub const LONG: f64 = 0.6;

    fn new(graph: &Graph, Weight { share, latency, .. }: Weight) -> Self {
        if is_copy(graph) {
            return Self::Copy;
        }
        match share {
            share if share <= Self::ARITHMETIC => Self::Arithmetic,
            share if share <= Self::SHORT && latency <= Self::LATENCY => Self::Short,
            share if share <= Self::LONG => Self::Long,
            _ => Self::Heavy,
        }
    }

    /// Whether there are functions or other long work, so that issue slots matter.
    const fn is_function(self) -> bool {
        matches!(self, Self::Short | Self::Long | Self::Heavy)
    }
}

/// The properties of an expression that determine its plan.
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
    /// The work per element.
    pub work: Work,
}

impl Class {
    /// The class of an expression in a tier.
    #[must_use]
    pub fn from_graph(graph: &Graph, tier: Tier) -> Self {
        Self::with_weight(graph, tier).0
    }

    /// The class of an expression in a tier, and its arithmetic.
    #[must_use]
    pub(super) fn with_weight(graph: &Graph, tier: Tier) -> (Self, Weight) {
        let weight = weight(graph, tier);
        let work = Work::new(graph, weight);
        // Copies of all types are one class.
        let bytes = if work == Work::Copy { vec![1] } else { super::spec::element_bytes(graph) };
        let class = Self {
            inputs: graph.reads().iter().filter(|read| **read).count() as u32,
            outputs: graph.outputs().len() as u32,
            narrowest: bytes.iter().copied().min().unwrap_or(1),
            widest: bytes.iter().copied().max().unwrap_or(1),
            work,
        };
        (class, weight)
    }
}

/// One measured choice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// The class of expressions.
    pub class: Class,
    /// Most bytes moved. The smallest sufficient row applies, or the largest row if none is sufficient.
    pub most_bytes: u64,
    /// For launches that may overlap.
    pub dependent: bool,
    /// For data in L2.
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
    /// Cache hints as bits: 1 for loads that bypass L1 or evict-last bulk copies, 2 for streaming stores.
    pub hints: u32,
    /// When the next kernel may begin, for launches that may overlap.
    pub release: Dependent,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_cold(cached: &bool) -> bool {
    !cached
}

/// A query for a row.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// The expression's class.
    pub class: Class,
    /// Bytes moved.
    pub bytes: u64,
    /// The launch may overlap with its neighbours; uses a row for such launches if the class has one.
    pub dependent: bool,
    /// The data are in L2.
    pub cached: bool,
    /// [`Form::Bulk`] is possible.
    pub bulk: bool,
}

/// Measured choices for one device. The default table is empty, so that the bytes-in-flight rule chooses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// Its origin, as shown in reasons: "measured on NVIDIA H200".
    pub source: String,
    /// The choices.
    pub rows: Vec<Row>,
}

/// The text is not a table of plans.
#[derive(Debug, thiserror::Error)]
#[error("not a table of plans: {0}")]
pub struct TableError(#[from] serde_json::Error);

impl Table {
    /// Reads what [`Table::to_json`] writes.
    ///
    /// # Errors
    /// If the text is not a table.
    pub fn from_json(text: &str) -> Result<Self, TableError> {
        Ok(serde_json::from_str(text)?)
    }

    /// The table as JSON.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// The shipped table for a device, by the name that the driver reports and its compute capability times ten; the default
    /// table if none is shipped.
    #[must_use]
    pub fn for_device(name: &str, capability: u32) -> Self {
        // A GH200 is a different machine.
        if capability == 90 && name.split_whitespace().any(|word| word == "H200") {
            // A test ensures that it parses.
            return Self::from_json(include_str!("h200.json")).unwrap_or_default();
        }
        Self::default()
    }

    /// Adds another table's rows for classes that this one has no rows for.
    #[must_use]
    pub fn with_classes_of(mut self, other: Self) -> Self {
        let new = |row: &Row| self.rows.iter().all(|own| own.class != row.class);
        let rows: Vec<Row> = other.rows.into_iter().filter(new).collect();
        self.rows.extend(rows);
        self
    }

    /// Finds the row for a class and a number of bytes moved: a row of the class itself, else of the most similar class, with the
    /// smallest sufficient number of bytes. Rows for cached data take precedence over others of the same size. Uses [`Form::Bulk`]
    /// if it is possible and was measured to be faster.
    ///
    /// Rows for dependent launches apply only to their own class; other classes get a row for plain launches. Dependent rows give
    /// each thread many elements, because the previous launch hides the time that this takes. It doesn't hide it if an element
    /// takes longer: on an H200 the row of `a*x + y` for 4 to 16 MiB made functions of two inputs up to four times slower than a
    /// plain launch.
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
        // If two classes are equally similar, the first in their order.
        let nearest = self.rows.iter().filter(allowed).map(|row| (distance(row), row.class)).min()?;
        let rows = || self.rows.iter().filter(allowed).filter(|row| (distance(row), row.class) == nearest);
        let most = rows().map(|row| row.most_bytes).filter(|&most| most >= wanted.bytes).min();
        let most = most.or_else(|| rows().map(|row| row.most_bytes).max())?;
        rows().rev().filter(|row| row.most_bytes == most).max_by_key(|row| (row.cached, row.form == Form::Bulk))
    }
}

impl Class {
    /// The dissimilarity of two classes; 0 if they are equal. The numbers of tensors count most, then functions, then element sizes
    /// (because vectors are measured in bytes), then the rest of the work. Element sizes of copies don't matter, and no other class
    /// is similar to copies.
    fn distance(self, other: Self) -> u64 {
        let log = |bytes: u32| u64::from(bytes.max(1).ilog2());
        let copies = [self.work, other.work].map(|work| work == Work::Copy);
        let size_distance = |a, b| if copies.contains(&true) { 0 } else { log(a).abs_diff(log(b)) };
        16 * (u64::from(self.inputs.abs_diff(other.inputs)) + u64::from(self.outputs.abs_diff(other.outputs)))
            + 8 * u64::from(self.work.is_function() != other.work.is_function())
            + u64::from(self.work != other.work)
            + 12 * u64::from(copies[0] != copies[1])
            + 4 * (size_distance(self.narrowest, other.narrowest) + size_distance(self.widest, other.widest))
    }
}

/// A fixed table in the format of `plimsoll tune`, independent of new measurements.
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
    fn shipped_table_survives_a_json_round_trip() {
        let table = Table::for_device("NVIDIA H200", 90);
        assert!(!table.rows.is_empty());
        assert_eq!(Table::from_json(&table.to_json()).unwrap(), table);
        let cached = Wanted { class: ADD, bytes: 8 << 20, dependent: true, bulk: true, cached: true };
        assert!(table.row(cached).is_some_and(|row| row.cached && row.dependent));
        assert_eq!(Table::for_device("NVIDIA GH200 480GB", 90), Table::default());
        assert!(Table::from_json("{}").unwrap_err().to_string().contains("not a table of plans"));
    }

    fn class(text: &str, dtype: DType) -> Class {
        Class::from_graph(&parse(text, &Names::with_default(dtype)).unwrap(), Tier::Accurate)
    }

    #[test]
    fn class_depends_on_the_work_per_element() {
        assert_eq!(class("x", DType::F64), class("x", DType::U8));
        let work = [
            ("x", Work::Copy),
            ("x + 42", Work::Arithmetic),
            ("x*x + 1", Work::Arithmetic),
            ("x/3", Work::Arithmetic),
            ("tanh(x)", Work::Short),
            ("exp(x)/x", Work::Long),
            ("0.5*exp(x)", Work::Short),
            ("log(x)", Work::Short),
            ("log10(x + 1)", Work::Long),
            ("exp(log(x))", Work::Heavy),
            ("log(x) + log(y)", Work::Heavy),
            ("erf(x)", Work::Long),
        ];
        for (text, expected) in work {
            assert_eq!(class(text, DType::Bf16).work, expected, "{text}");
        }
        assert_eq!(class("exp2(x)", DType::F32).work, Work::Short);
        // Two special functions after each other, though they weigh little in f32.
        assert_eq!(class("silu(x)", DType::F32).work, Work::Long);
        assert_eq!((class("log(x)", DType::F32).work, class("exp(x)", DType::F64).work), (Work::Long, Work::Short));
        let long = format!("x{}", " * x + 1.5".repeat(20));
        assert_eq!(class(&long, DType::F32).work, Work::Long);
        assert_eq!(class(&format!("exp({long}) / x"), DType::F32).work, Work::Heavy);
    }

    #[test]
    fn class_without_rows_uses_those_of_the_most_similar_class() {
        let table = Table::for_device("NVIDIA H200", 90);
        let row =
            |class, bulk| table.row(Wanted { class, bytes: 2 << 30, dependent: false, bulk, cached: false }).unwrap();
        let exp = class("exp(x)", DType::Bf16);
        assert_eq!((row(exp, true).class, row(exp, true).form), (exp, Form::Bulk));
        // There is also a row without bulk copies, for the same number of bytes.
        assert_eq!((row(exp, false).form, row(exp, false).most_bytes), (Form::Flat, row(exp, true).most_bytes));
        let wide = class("exp(x)", DType::F32);
        assert_eq!((row(wide, true).class, row(wide, true).form), (wide, Form::Bulk));
        assert_eq!((row(wide, false).class, row(wide, false).form), (wide, Form::Flat));
        assert_eq!(row(class("log(x)", DType::F64), true).class, class("erf(x)", DType::F32));
        assert_eq!(row(class("exp(x)", DType::F16), true).class, exp);
        assert_eq!(row(class("x + 1", DType::F64), true).class, class("x + 1", DType::F32));
        let mut old = Table::for_device("NVIDIA H200", 90);
        old.rows.retain(|row| row.class.work != Work::Copy);
        let copy =
            Wanted { class: class("x", DType::F32), bytes: 2 << 30, dependent: false, bulk: true, cached: false };
        assert_eq!(old.row(copy).unwrap().class.work, Work::Arithmetic);
    }

    #[test]
    fn shipped_table_has_unique_rows_and_a_flat_row_for_every_class_and_size() {
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
    fn rows_are_chosen_by_size_launch_and_similarity() {
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
    fn launch_larger_than_any_measured_uses_the_largest_row() {
        let mut table = example();
        table.rows.retain(|row| row.most_bytes <= 16 << 20 && !row.dependent);
        let most = |bytes, dependent| {
            table.row(Wanted { class: ADD, bytes, dependent, bulk: true, cached: false }).unwrap().most_bytes
        };
        assert_eq!(most(1 << 40, false), 16 << 20);
        assert_eq!(most(1 << 20, true), 4 << 20);
    }

    #[test]
    fn merging_tables_keeps_rows_of_other_classes() {
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
    fn rows_for_cached_data_are_used_only_for_cached_data() {
        let mut table = example();
        let wanted = |bytes, cached| Wanted { class: ADD, bytes, dependent: false, cached, bulk: false };
        let cold = table.row(wanted(10 << 20, false)).unwrap().clone();
        table.rows.push(Row { unroll: 2 * cold.unroll, cached: true, ..cold.clone() });
        assert_eq!(table.row(wanted(10 << 20, false)), Some(&cold));
        assert_eq!(table.row(wanted(10 << 20, true)).unwrap().unroll, 2 * cold.unroll);
        // Smaller and larger launches keep their rows.
        for bytes in [1 << 20, 1 << 40] {
            assert_eq!(table.row(wanted(bytes, true)), table.row(wanted(bytes, false)));
        }
        assert_eq!(Table::from_json(&table.to_json()).unwrap(), table);
    }
}
