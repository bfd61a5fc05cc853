//! Reading the kernel's small text files. They are untrusted: a file that is missing, huge or malformed is `None`, never
//! a panic.

use std::io::Read;
use std::path::Path;

/// Most bytes to read of a file: `/proc/stat` of a 1,024-CPU machine has about 100 KiB.
const LONGEST: u64 = 1 << 20;
/// CPU numbers at or above this are treated as damaged (Linux supports at most 8,192).
const MOST_CPUS: usize = 1 << 16;

/// The file's text without surrounding whitespace.
pub(crate) fn read(path: &Path) -> Option<String> {
    read_up_to(path, LONGEST)
}

/// As [`read`], for the one file that may be long: `/proc/self/smaps` has 1 KiB for each mapping.
pub(crate) fn read_long(path: &Path) -> Option<String> {
    read_up_to(path, 64 * LONGEST)
}

fn read_up_to(path: &Path, most: u64) -> Option<String> {
    let mut bytes = Vec::new();
    std::fs::File::open(path).ok()?.take(most).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).trim().to_owned())
}

/// The file's text as a number.
pub(crate) fn number<T: std::str::FromStr>(path: &Path) -> Option<T> {
    read(path)?.parse().ok()
}

/// A CPU list as the kernel writes it, `0-3,8,10-11`: ascending, each once. `None` if any part is malformed.
pub(crate) fn cpu_list(text: &str) -> Option<Vec<usize>> {
    let mut cpus = Vec::new();
    for part in text.trim().split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        if first > last || last >= MOST_CPUS {
            return None;
        }
        cpus.extend(first..=last);
    }
    cpus.sort_unstable();
    cpus.dedup();
    Some(cpus)
}

/// A size as the kernel writes it in `cache/index*/size`: `48K`, `2M`, or plain bytes.
pub(crate) fn size(text: &str) -> Option<u64> {
    let text = text.trim();
    let (digits, scale) = match text.as_bytes().last()? {
        b'K' | b'k' => (&text[..text.len() - 1], 1 << 10),
        b'M' | b'm' => (&text[..text.len() - 1], 1 << 20),
        b'G' | b'g' => (&text[..text.len() - 1], 1 << 30),
        _ => (text, 1),
    };
    digits.trim().parse::<u64>().ok()?.checked_mul(scale)
}

/// The value of `key` in a file of lines `key: value kB` (`/proc/meminfo`, `/proc/self/smaps`), in bytes.
pub(crate) fn kilobytes(text: &str, key: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    value.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn cpu_lists_are_parsed_sorted_and_deduplicated() {
        assert_eq!(cpu_list("0-3,8,10-11\n"), Some(vec![0, 1, 2, 3, 8, 10, 11]));
        assert_eq!(cpu_list("3,1,1-2"), Some(vec![1, 2, 3]));
        assert_eq!(cpu_list(""), Some(vec![]));
        for damaged in ["a", "3-1", "0-", "-", "0-99999999999", "18446744073709551615", "0-4000000000"] {
            assert_eq!(cpu_list(damaged), None, "{damaged}");
        }
    }

    #[test]
    fn sizes_and_kilobyte_lines_are_in_bytes() {
        assert_eq!(size("48K"), Some(48 << 10));
        assert_eq!(size("266240K"), Some(260 << 20));
        assert_eq!(size("4M"), Some(4 << 20));
        assert_eq!(size("512"), Some(512));
        for damaged in ["", "K", "é", "-1K", "18446744073709551615K"] {
            assert_eq!(size(damaged), None, "{damaged}");
        }
        let meminfo = "MemTotal:       24683520 kB\nMemAvailable:   24366080 kB\nHugePages_Total:       0\n";
        assert_eq!(kilobytes(meminfo, "MemAvailable"), Some(24_366_080 << 10));
        assert_eq!(kilobytes(meminfo, "HugePages_Total"), None);
        assert_eq!(kilobytes(meminfo, "Mem"), None);
    }

    proptest! {
        #[test]
        fn parsers_never_panic(text in "\\PC{0,40}") {
            let _ = (cpu_list(&text), size(&text), kilobytes(&text, "a"));
        }
    }
}
