//! Tuned plans on disk: one small file per expression, tensors and kind of launch, written atomically, so that several programs can share
//! a folder. What a file holds is untrusted ([`TunedEntry`]); one of another version or a damaged one is ignored, and replaced by the next
//! plan that is tuned.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use plimsoll_core::file::{self, Accept, Target};
use plimsoll_gen::elementwise::{TunedEntry, TunedFor};

/// Most bytes of a file: an expression of some thousand operations.
const MOST_BYTES: u64 = 256 << 10;
/// Most files in a folder: beyond them the oldest are deleted.
const MOST_FILES: usize = 4096;

/// A folder of tuned plans.
#[derive(Clone, Debug)]
pub struct Store {
    folder: PathBuf,
    most: usize,
}

impl Store {
    /// Plans in this folder. It is created when the first plan is stored.
    #[must_use]
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into(), most: MOST_FILES }
    }

    /// The user's folder: `tuned` next to the profiles, in `$XDG_DATA_HOME/plimsoll`, else `~/.local/share/plimsoll`; `None` if neither
    /// variable holds an absolute path.
    #[must_use]
    pub fn of_user() -> Option<Self> {
        let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let data = absolute("XDG_DATA_HOME").or_else(|| Some(absolute("HOME")?.join(".local/share")))?;
        Some(Self::new(data.join("plimsoll/tuned")))
    }

    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn path(&self, tuned_for: &TunedFor) -> PathBuf {
        self.folder.join(tuned_for.file_stem()).with_extension("json")
    }

    /// The stored plan for exactly this, if there is one.
    ///
    /// # Errors
    /// Why a file that exists isn't used.
    pub fn load(&self, tuned_for: &TunedFor) -> Result<Option<TunedEntry>, String> {
        let path = self.path(tuned_for);
        let unused = |why: &dyn std::fmt::Display| format!("{} is not used: {why}", path.display());
        let text = match file::read_text(&path, MOST_BYTES, Accept::Regular) {
            Ok(text) => text,
            Err(error) if error.is_absent() => return Ok(None),
            Err(error) => return Err(unused(&error)),
        };
        let entry = TunedEntry::from_json(&text).map_err(|error| unused(&error))?;
        if entry.tuned_for != *tuned_for {
            return Err(unused(&"it was tuned for something else"));
        }
        Ok(Some(entry))
    }

    /// Stores a plan.
    ///
    /// # Errors
    /// The system's, or an expression too long for a file.
    pub fn save(&self, entry: &TunedEntry) -> io::Result<()> {
        let text = entry.to_json() + "\n";
        if text.len() as u64 > MOST_BYTES {
            return Err(io::Error::other("the expression is too long"));
        }
        fs::create_dir_all(&self.folder)?;
        Target::find(&self.path(&entry.tuned_for))?.write(text.as_bytes(), true)?;
        self.delete_oldest();
        Ok(())
    }

    /// Deletes the oldest plans beyond the limit. Other files stay; another program may delete the same ones.
    fn delete_oldest(&self) {
        let Ok(files) = fs::read_dir(&self.folder) else { return };
        let is_plan = |path: &Path| {
            let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
            let is_hash = stem.len() == 16 && stem.bytes().all(|byte| byte.is_ascii_hexdigit());
            is_hash && path.extension().is_some_and(|extension| extension == "json")
        };
        let age = |file: fs::DirEntry| {
            let modified = file.metadata().ok()?.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            is_plan(&file.path()).then(|| (modified, file.path()))
        };
        let mut plans: Vec<(SystemTime, PathBuf)> = files.flatten().filter_map(age).collect();
        let surplus = plans.len().saturating_sub(self.most);
        plans.sort();
        for (_, path) in plans.into_iter().take(surplus) {
            let _ = fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_expr::{DType, Names, parse};
    use plimsoll_gen::Target as Architecture;
    use plimsoll_gen::elementwise::{Access, Choose, Device, Indexing, Table, plan};

    use super::*;

    fn entry(elements: u64, threads: u32) -> TunedEntry {
        let graph = parse("x + 1", &Names::with_default(DType::F32)).unwrap();
        let access = Access { strides: vec![1], phase: 0 };
        let indexing = Indexing { extents: vec![elements], accesses: vec![access; 2] };
        let target = Architecture::plain(90);
        let device = Device { target, multiprocessors: 132, threads_per_multiprocessor: 2048, l2_bytes: 60 << 20 };
        let base = Choose::default();
        let untuned = plan(&graph, &indexing, &device, &Table::default(), &base).unwrap().spec;
        let tuned_for = TunedFor::new("GPU", &graph, &indexing, &untuned, &base);
        TunedEntry::new(tuned_for, &Choose { threads: Some(threads), ..base }, (2.0, 1.0))
    }

    #[test]
    fn a_stored_plan_is_found_for_its_own_key_only() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(folder.path().join("new/tuned"));
        let (own, other) = (entry(1 << 20, 64), entry(1 << 21, 64));
        assert_eq!(store.load(&own.tuned_for), Ok(None));
        store.save(&own).unwrap();
        assert_eq!((store.load(&own.tuned_for), store.load(&other.tuned_for)), (Ok(Some(own.clone())), Ok(None)));
        // A file under another key's name.
        fs::copy(store.path(&own.tuned_for), store.path(&other.tuned_for)).unwrap();
        assert!(store.load(&other.tuned_for).unwrap_err().contains("tuned for something else"));
    }

    #[test]
    fn damaged_and_endless_files_are_ignored_with_a_reason_and_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let (store, own) = (Store::new(folder.path()), entry(1 << 20, 64));
        for text in ["", "{}", "\u{fffd}", &own.to_json()[..100], &" ".repeat(1 + MOST_BYTES as usize)] {
            fs::write(store.path(&own.tuned_for), text).unwrap();
            let why = store.load(&own.tuned_for).unwrap_err();
            assert!(why.contains("is not used"), "{why}");
        }
        store.save(&own).unwrap();
        assert_eq!(store.load(&own.tuned_for), Ok(Some(own)));
    }

    #[test]
    fn the_oldest_plans_are_deleted_and_other_files_stay() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store { most: 3, ..Store::new(folder.path()) };
        fs::write(folder.path().join("notes.json"), "mine").unwrap();
        let entries: Vec<TunedEntry> = (0..5).map(|place| entry(1 << (10 + place), 64)).collect();
        for (age, entry) in (0..).zip(&entries) {
            store.save(entry).unwrap();
            let modified = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(age);
            fs::File::options().write(true).open(store.path(&entry.tuned_for)).unwrap().set_modified(modified).unwrap();
        }
        let stored = entries.iter().map(|entry| store.load(&entry.tuned_for).unwrap().is_some());
        assert_eq!(stored.collect::<Vec<_>>(), [false, false, true, true, true]);
        assert!(folder.path().join("notes.json").exists());
    }

    #[test]
    fn concurrent_writers_leave_a_whole_plan() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(folder.path());
        std::thread::scope(|scope| {
            for threads in [32, 64, 96, 128] {
                let store = &store;
                scope.spawn(move || {
                    for _ in 0..20 {
                        let own = entry(1 << 20, threads);
                        store.save(&own).unwrap();
                        assert!(store.load(&own.tuned_for).unwrap().is_some());
                    }
                });
            }
        });
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
