//! Where the machine gets its power from.

use std::fs;
use std::path::Path;

/// Linux's list of batteries and mains supplies.
const SUPPLIES: &str = "/sys/class/power_supply";
/// Most supplies that are looked at.
const MOST: usize = 64;

/// Whether the machine runs on its battery: it has a mains supply, and none is connected. `None` where the system doesn't say.
pub(crate) fn is_on_battery() -> Option<bool> {
    read(Path::new(SUPPLIES))
}

fn read(supplies: &Path) -> Option<bool> {
    let content = |path: &Path| Some(fs::read_to_string(path).ok()?.trim().to_owned());
    let is_mains = |supply: &Path| content(&supply.join("type")).is_some_and(|kind| kind == "Mains");
    let supplies = fs::read_dir(supplies).ok()?.flatten().take(MOST).map(|entry| entry.path());
    let online: Vec<bool> = supplies
        .filter(|supply| is_mains(supply))
        .filter_map(|supply| content(&supply.join("online")))
        .map(|online| online != "0")
        .collect();
    (!online.is_empty()).then(|| !online.contains(&true))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_on_battery_while_no_mains_supply_is_connected() {
        let folder = tempfile::tempdir().unwrap();
        let supply = |name: &str, kind: &str, online: &str| {
            let path = folder.path().join(name);
            fs::create_dir_all(&path).unwrap();
            fs::write(path.join("type"), format!("{kind}\n")).unwrap();
            fs::write(path.join("online"), format!("{online}\n")).unwrap();
        };
        assert_eq!(read(folder.path()), None);
        supply("BAT0", "Battery", "1");
        assert_eq!(read(folder.path()), None);
        supply("AC", "Mains", "0");
        assert_eq!(read(folder.path()), Some(true));
        supply("AC2", "Mains", "1");
        assert_eq!(read(folder.path()), Some(false));
        assert_eq!(read(&folder.path().join("missing")), None);
    }
}
