//! A table that compares the machine code of kernels, one row each.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Class, HotKind, KernelReport};

/// One kernel's row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The kernel.
    pub kernel: String,
    /// The compilation target.
    pub target: String,
    /// `iteration` if the hot part is a loop, else `thread`; empty for a kernel that does nothing.
    pub per: String,
    /// Instructions per iteration or thread.
    pub instructions: u32,
    /// Bytes of global memory per iteration or thread, reads and writes.
    pub bytes: u32,
    /// Loads from global memory, as `2 × 16 B`; empty if bulk copies replace them.
    pub loads: String,
    /// Stores to global memory, in the same form.
    pub stores: String,
    /// Registers per thread; `None` if neither the listing nor a cubin states them.
    pub registers: Option<u32>,
    /// Local memory per thread, bytes.
    pub local_bytes: u32,
}

impl Row {
    /// The row for a kernel's report.
    #[must_use]
    pub fn new(target: &str, report: &KernelReport) -> Self {
        let hot = report.hot.as_ref();
        let accesses = |class: Class| {
            let accesses = hot.iter().flat_map(|hot| &hot.accesses).filter(|a| a.access.class == class);
            let each = accesses
                .map(|a| format!("{} × {} B {}", a.count, a.access.bytes, a.access.hints).trim_end().to_owned());
            each.collect::<Vec<_>>().join(" + ")
        };
        Self {
            kernel: report.name.clone(),
            target: target.to_owned(),
            per: hot.map_or("", |hot| if hot.kind == HotKind::Loop { "iteration" } else { "thread" }).to_owned(),
            instructions: hot.map_or(0, |hot| hot.instructions),
            bytes: hot.map_or(0, super::Hot::moved),
            loads: accesses(Class::GlobalLoad),
            stores: accesses(Class::GlobalStore),
            registers: report.registers,
            local_bytes: report.local_bytes,
        }
    }

    fn cells(&self) -> [String; 9] {
        let registers = self.registers.map_or(String::new(), |registers| registers.to_string());
        let dash = |text: &str| if text.is_empty() { "–" } else { text }.to_owned();
        [
            self.kernel.clone(),
            self.target.clone(),
            self.instructions.to_string(),
            self.bytes.to_string(),
            dash(&self.per),
            dash(&self.loads),
            dash(&self.stores),
            dash(&registers),
            self.local_bytes.to_string(),
        ]
    }
}

/// Rows with headings; displayed as text with aligned columns.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Table(pub Vec<Row>);

const HEADINGS: [&str; 9] =
    ["kernel", "target", "instructions", "bytes", "per", "loads", "stores", "registers", "local bytes"];

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows: Vec<[String; 9]> =
            [HEADINGS.map(str::to_owned)].into_iter().chain(self.0.iter().map(Row::cells)).collect();
        let widths: [usize; 9] =
            std::array::from_fn(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0));
        for row in &rows {
            let cells = row.iter().zip(widths).zip(HEADINGS).map(|((cell, width), heading)| match heading {
                "instructions" | "bytes" | "registers" | "local bytes" => format!("{cell:>width$}"),
                _ => format!("{cell:<width$}"),
            });
            writeln!(f, "{}", cells.collect::<Vec<_>>().join("  ").trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sass::{Listing, Report};

    const COPY_80: &str = include_str!("../../tests/data/copy.sm_80.sass");

    #[test]
    fn table_aligns_kernels_in_columns() {
        let report = Report::new(&Listing::parse(COPY_80).unwrap(), &[]);
        let rows = ["vector1_u32", "vector1_u64", "vector4_u32"].map(|name| report.kernel(name).unwrap());
        let table = Table(rows.map(|found| Row::new("sm_80", found)).to_vec());
        let expected = "\
kernel       target  instructions  bytes  per        loads     stores    registers  local bytes
vector1_u32  sm_80              9      8  iteration  1 × 4 B   1 × 4 B          10            0
vector1_u64  sm_80             14      8  iteration  1 × 4 B   1 × 4 B          12            0
vector4_u32  sm_80              9     32  iteration  1 × 16 B  1 × 16 B         14            0
";
        assert_eq!(table.to_string(), expected);
    }
}
