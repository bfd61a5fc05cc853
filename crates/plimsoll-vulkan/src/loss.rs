//! What is told of a device that was lost: the work that it had, and what its driver says of the fault.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use ash::vk;

/// Different pieces of work that are named at most.
const NAMED: usize = 6;

/// What commands use, held until they have ended.
pub(crate) trait Held: Send + Sync {
    /// The kernel and its blocks, where it is a launch.
    fn work(&self) -> Vec<String> {
        Vec::new()
    }
}

/// What a driver says of a fault (`VK_EXT_device_fault`).
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Report {
    pub(crate) description: String,
    pub(crate) addresses: Vec<Address>,
    /// Description, code and data, each the vendor's.
    pub(crate) vendor: Vec<(String, u64, u64)>,
}

/// An address of a fault.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) kind: vk::DeviceFaultAddressTypeEXT,
    pub(crate) reported: u64,
    /// It is known to a multiple of this, a power of two.
    pub(crate) precision: u64,
}

/// An array that was there: where it begins, and its bytes.
pub(crate) type Array = (u64, u64);

impl Address {
    fn what(self) -> &'static str {
        match self.kind {
            vk::DeviceFaultAddressTypeEXT::READ_INVALID => "a read of",
            vk::DeviceFaultAddressTypeEXT::WRITE_INVALID => "a write to",
            vk::DeviceFaultAddressTypeEXT::EXECUTE_INVALID => "code at",
            _ => "an instruction at",
        }
    }

    /// The first and the last byte that may be meant.
    fn range(self) -> (u64, u64) {
        let mask = self.precision.checked_next_power_of_two().map_or(u64::MAX, |step| step - 1);
        (self.reported & !mask, self.reported | mask)
    }

    /// Where it lies: in an array, behind the nearest one that begins below, or before all.
    fn place(self, arrays: &[Array]) -> String {
        let (first, last) = self.range();
        let inside = |(begin, bytes): &&Array| last >= *begin && first < begin.saturating_add(*bytes);
        if let Some((begin, bytes)) = arrays.iter().find(inside) {
            return format!("byte {} of an array of {bytes} bytes", first.saturating_sub(*begin));
        }
        let below = arrays.iter().filter(|(begin, _)| *begin <= first).max_by_key(|(begin, _)| *begin);
        below.map_or("before all arrays".to_owned(), |(begin, bytes)| {
            let behind = first.saturating_sub(begin.saturating_add(*bytes));
            format!("{behind} bytes behind the end of an array of {bytes} bytes")
        })
    }
}

impl Report {
    /// In words, with the arrays that there were.
    pub(crate) fn words(&self, arrays: &[Array]) -> String {
        let mut words = if self.description.is_empty() { "nothing".to_owned() } else { self.description.clone() };
        // Writing to a String can't fail.
        for address in &self.addresses {
            let (first, last) = address.range();
            let _ = write!(words, "; {} {first:#x} to {last:#x}, {}", address.what(), address.place(arrays));
        }
        for (description, code, data) in &self.vendor {
            let _ = write!(words, "; {description} (code {code:#x}, data {data:#x})");
        }
        words
    }
}

/// Work that wasn't seen to end, in its order: each different piece once, with how often it was there.
pub(crate) fn pending(work: impl IntoIterator<Item = String>) -> String {
    let mut count = BTreeMap::new();
    let mut order = Vec::new();
    for piece in work {
        let times = count.entry(piece.clone()).or_insert(0_u64);
        *times += 1;
        if *times == 1 {
            order.push(piece);
        }
    }
    let named = order.iter().take(NAMED).map(|piece| match count.get(piece) {
        Some(times) if *times > 1 => format!("{times} times {piece}"),
        _ => piece.clone(),
    });
    let mut words = named.collect::<Vec<_>>().join(", ");
    if order.len() > NAMED {
        let _ = write!(words, " and {} more", order.len() - NAMED);
    }
    if words.is_empty() { "no kernel".to_owned() } else { words }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ARRAYS: [Array; 2] = [(0x10_0000, 4096), (0x20_0000, 0x8_0000)];

    fn read(reported: u64, precision: u64) -> String {
        Address { kind: vk::DeviceFaultAddressTypeEXT::READ_INVALID, reported, precision }.place(&ARRAYS)
    }

    #[test]
    fn an_address_is_placed_by_the_arrays_around_it() {
        assert_eq!(read(0x10_0010, 1), "byte 16 of an array of 4096 bytes");
        assert_eq!(read(0x10_1000, 1), "0 bytes behind the end of an array of 4096 bytes");
        assert_eq!(read(0x28_1234, 0x1000), "4096 bytes behind the end of an array of 524288 bytes");
        assert_eq!(read(0x100, 1), "before all arrays");
        // Known only to a range that an array has a part of.
        assert_eq!(read(0x10_3000, 0x10000), "byte 0 of an array of 4096 bytes");
        assert_eq!(read(u64::MAX, u64::MAX), "byte 0 of an array of 4096 bytes");
    }

    #[test]
    fn a_report_tells_all_that_the_driver_said() {
        let address = Address { kind: vk::DeviceFaultAddressTypeEXT::WRITE_INVALID, reported: 0x28_0004, precision: 4 };
        let report = Report {
            description: "MMU fault".to_owned(),
            addresses: vec![address],
            vendor: vec![("engine".to_owned(), 31, 7)],
        };
        let words = report.words(&ARRAYS);
        assert!(words.starts_with("MMU fault; a write to 0x280004 to 0x280007, 4 bytes behind"), "{words}");
        assert!(words.ends_with("; engine (code 0x1f, data 0x7)"), "{words}");
        assert_eq!(Report::default().words(&[]), "nothing");
    }

    #[test]
    fn pending_work_is_counted_in_its_order() {
        let of = |names: &[&str]| pending(names.iter().map(|name| (*name).to_owned()));
        assert_eq!(of(&["b", "a", "b"]), "2 times b, a");
        assert_eq!(of(&[]), "no kernel");
        let many: Vec<String> = (0..9).map(|i| i.to_string()).collect();
        assert_eq!(pending(many), "0, 1, 2, 3, 4, 5 and 3 more");
    }
}
