//! The message for a lost device: its pending work, and the driver's report of the fault.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use ash::vk;

/// Most different pieces of work that are named.
const MOST_NAMED: usize = 6;

/// A resource of commands, kept alive until they have ended.
pub(crate) trait Resource: Send + Sync {
    /// The kernels and their blocks, if the resource is a launch or a graph.
    fn describe_work(&self) -> Vec<String> {
        Vec::new()
    }
}

/// A driver's report of a fault (`VK_EXT_device_fault`).
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Report {
    pub(crate) description: String,
    pub(crate) addresses: Vec<Address>,
    /// The vendor's descriptions, codes and data.
    pub(crate) vendor: Vec<(String, u64, u64)>,
}

/// An address of a fault.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) kind: vk::DeviceFaultAddressTypeEXT,
    pub(crate) reported: u64,
    /// The address is known to a multiple of this power of two.
    pub(crate) precision: u64,
}

/// An allocated array: address and bytes.
pub(crate) type Array = (u64, u64);

impl Address {
    fn describe_access(self) -> &'static str {
        match self.kind {
            vk::DeviceFaultAddressTypeEXT::READ_INVALID => "a read of",
            vk::DeviceFaultAddressTypeEXT::WRITE_INVALID => "a write to",
            vk::DeviceFaultAddressTypeEXT::EXECUTE_INVALID => "code at",
            _ => "an instruction at",
        }
    }

    /// The first and the last byte that the address may stand for.
    fn range(self) -> (u64, u64) {
        let mask = self.precision.checked_next_power_of_two().map_or(u64::MAX, |step| step - 1);
        (self.reported & !mask, self.reported | mask)
    }

    /// Describes where the address is: in an array, after the nearest array below it, or before all arrays.
    fn describe_place(self, arrays: &[Array]) -> String {
        let (first, last) = self.range();
        let inside = |(begin, bytes): &&Array| last >= *begin && first < begin.saturating_add(*bytes);
        if let Some((begin, bytes)) = arrays.iter().find(inside) {
            return format!("byte {} of an array of {bytes} bytes", first.saturating_sub(*begin));
        }
        let below = arrays.iter().filter(|(begin, _)| *begin <= first).max_by_key(|(begin, _)| *begin);
        below.map_or("before all arrays".to_owned(), |(begin, bytes)| {
            let past = first.saturating_sub(begin.saturating_add(*bytes));
            format!("{past} bytes past the end of an array of {bytes} bytes")
        })
    }
}

impl Report {
    /// Describes the report, with addresses relative to the allocated arrays.
    pub(crate) fn describe(&self, arrays: &[Array]) -> String {
        let mut words = if self.description.is_empty() { "nothing".to_owned() } else { self.description.clone() };
        // Writing to a String can't fail.
        for address in &self.addresses {
            let (first, last) = address.range();
            let _ = write!(
                words,
                "; {} {first:#x} to {last:#x}, {}",
                address.describe_access(),
                address.describe_place(arrays)
            );
        }
        for (description, code, data) in &self.vendor {
            let _ = write!(words, "; {description} (code {code:#x}, data {data:#x})");
        }
        words
    }
}

/// Describes work that wasn't seen to end, in its order: each different piece once, with the number of times.
pub(crate) fn describe_pending(work: impl IntoIterator<Item = String>) -> String {
    let mut count = BTreeMap::new();
    let mut order = Vec::new();
    for piece in work {
        let times = count.entry(piece.clone()).or_insert(0_u64);
        *times += 1;
        if *times == 1 {
            order.push(piece);
        }
    }
    let named = order.iter().take(MOST_NAMED).map(|piece| match count.get(piece) {
        Some(times) if *times > 1 => format!("{times} times {piece}"),
        _ => piece.clone(),
    });
    let mut words = named.collect::<Vec<_>>().join(", ");
    if order.len() > MOST_NAMED {
        let _ = write!(words, " and {} more", order.len() - MOST_NAMED);
    }
    if words.is_empty() { "no kernel".to_owned() } else { words }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ARRAYS: [Array; 2] = [(0x10_0000, 4096), (0x20_0000, 0x8_0000)];

    fn read(reported: u64, precision: u64) -> String {
        Address { kind: vk::DeviceFaultAddressTypeEXT::READ_INVALID, reported, precision }.describe_place(&ARRAYS)
    }

    #[test]
    fn address_is_described_relative_to_the_nearest_array() {
        assert_eq!(read(0x10_0010, 1), "byte 16 of an array of 4096 bytes");
        assert_eq!(read(0x10_1000, 1), "0 bytes past the end of an array of 4096 bytes");
        assert_eq!(read(0x28_1234, 0x1000), "4096 bytes past the end of an array of 524288 bytes");
        assert_eq!(read(0x100, 1), "before all arrays");
        // Known only to a range that overlaps an array.
        assert_eq!(read(0x10_3000, 0x10000), "byte 0 of an array of 4096 bytes");
        assert_eq!(read(u64::MAX, u64::MAX), "byte 0 of an array of 4096 bytes");
    }

    #[test]
    fn report_contains_everything_from_the_driver() {
        let address = Address { kind: vk::DeviceFaultAddressTypeEXT::WRITE_INVALID, reported: 0x28_0004, precision: 4 };
        let report = Report {
            description: "MMU fault".to_owned(),
            addresses: vec![address],
            vendor: vec![("engine".to_owned(), 31, 7)],
        };
        let words = report.describe(&ARRAYS);
        assert!(words.starts_with("MMU fault; a write to 0x280004 to 0x280007, 4 bytes past"), "{words}");
        assert!(words.ends_with("; engine (code 0x1f, data 0x7)"), "{words}");
        assert_eq!(Report::default().describe(&[]), "nothing");
    }

    #[test]
    fn pending_work_is_counted_in_order() {
        let of = |names: &[&str]| describe_pending(names.iter().map(|name| (*name).to_owned()));
        assert_eq!(of(&["b", "a", "b"]), "2 times b, a");
        assert_eq!(of(&[]), "no kernel");
        let many: Vec<String> = (0..9).map(|i| i.to_string()).collect();
        assert_eq!(describe_pending(many), "0, 1, 2, 3, 4, 5 and 3 more");
    }
}
