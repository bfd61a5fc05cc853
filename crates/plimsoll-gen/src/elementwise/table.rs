//! Plans found by measurement: which vectors, blocks and hints are fastest for a class of expression, by the bytes moved.

use plimsoll_expr::Graph;
use serde::{Deserialize, Serialize};

use super::spec::{Dependent, Form};

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
    /// Functions or a long chain of arithmetic, so that issue slots count beside memory.
    pub heavy: bool,
}

impl Class {
    /// The class of an expression.
    #[must_use]
    pub fn of(graph: &Graph) -> Self {
        let bytes = super::spec::element_bytes(graph);
        let cost = plimsoll_expr::Cost::of(graph);
        let functions = |class: &plimsoll_expr::cost::Class| matches!(class, plimsoll_expr::cost::Class::Function(_));
        let operations: u64 = cost.operations.values().sum();
        Self {
            inputs: graph.reads().iter().filter(|read| **read).count() as u32,
            outputs: graph.outputs().len() as u32,
            narrowest: bytes.iter().copied().min().unwrap_or(1),
            widest: bytes.iter().copied().max().unwrap_or(1),
            heavy: operations > 16 || cost.operations.keys().any(|(class, _)| functions(class)),
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
    /// [`Form::Flat`] or [`Form::Bulk`].
    pub form: Form,
    /// Bytes per access of the narrowest tensor.
    pub vector: u32,
    /// Accesses per tensor and thread.
    pub unroll: u32,
    /// Threads per block.
    pub threads: u32,
    /// Cache hints as bits: 1 loads past the first level, 2 streaming stores.
    pub hints: u32,
    /// When the next kernel may begin, for launches that may overlap.
    pub release: Dependent,
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

    /// The shipped table of a device by its name and compute capability times ten; the default where none is shipped.
    #[must_use]
    pub fn for_device(_name: &str, _capability: u32) -> Self {
        Self::default()
    }

    /// The row for a class and a number of bytes moved.
    #[must_use]
    pub fn row(&self, class: Class, bytes: u64, dependent: bool) -> Option<&Row> {
        let rows = || self.rows.iter().filter(|row| row.class == class && row.dependent == dependent);
        rows()
            .filter(|row| row.most_bytes >= bytes)
            .min_by_key(|row| row.most_bytes)
            .or_else(|| rows().max_by_key(|row| row.most_bytes))
    }
}
