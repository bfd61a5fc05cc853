//! Facts about the host that a later reader needs to trust a run. None of them identifies the machine or its user.

use std::collections::BTreeMap;

/// Operating system, architecture, kernel and distribution, by name. Unreadable facts are left out.
pub(crate) fn facts() -> BTreeMap<String, String> {
    let mut facts = BTreeMap::new();
    facts.insert("os".to_owned(), std::env::consts::OS.to_owned());
    facts.insert("architecture".to_owned(), std::env::consts::ARCH.to_owned());
    if let Ok(kernel) = std::fs::read_to_string("/proc/sys/kernel/osrelease") {
        facts.insert("kernel".to_owned(), kernel.trim().to_owned());
    }
    if let Ok(text) = std::fs::read_to_string("/etc/os-release") {
        facts.extend(distribution(&text).map(|name| ("distribution".to_owned(), name)));
    }
    facts
}

/// `PRETTY_NAME` from os-release(5).
fn distribution(os_release: &str) -> Option<String> {
    let line = os_release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(line.trim().trim_matches(['"', '\'']).chars().take(80).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distribution_is_read_with_or_without_quotes() {
        assert_eq!(distribution("ID=x\nPRETTY_NAME=\"Debian 13\"\n").as_deref(), Some("Debian 13"));
        assert_eq!(distribution("PRETTY_NAME=Arch\n").as_deref(), Some("Arch"));
        assert_eq!(distribution("NAME=Arch\n"), None);
    }
}
