//! Compiled kernels on disk: one file per key, written atomically, and used only after its hash is checked. `compile` decides what
//! is compiled and how. Without a usable folder everything works, only slower.
//!
//! Several processes may share a folder: each writes its own temporary file and renames it, and two that compile the same kernel
//! replace each other's identical entry. Only this user may access the folder (mode 0700), because its contents run on the device
//! with this user's rights; the hash guards against damage, not against malice.

use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use plimsoll_gpu::Unavailable;

/// Length of the hash at the end of an entry, bytes.
const TRAILER: usize = blake3::OUT_LEN;
/// Most bytes read of an entry; all our cubins are far smaller.
const LARGEST: u64 = 64 << 20;
/// Domain separation of the hash: no other program's file passes as an entry.
const DOMAIN: &str = "plimsoll cubin cache v1";

/// The name of an entry: a hash of everything that determines the compiler's output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key(String);

impl Key {
    /// Hashes the length and content of these parts, in this order.
    #[must_use]
    pub fn from_parts<'p>(parts: impl IntoIterator<Item = &'p [u8]>) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key(DOMAIN);
        for part in parts {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        Self(hasher.finalize().to_hex().to_string())
    }
}

/// A folder of entries.
#[derive(Clone, Debug)]
pub struct Cache {
    folder: PathBuf,
}

fn refused(why: String) -> Unavailable {
    let hint = "Kernels are compiled again in each run; set XDG_CACHE_HOME to a folder that only this user can access";
    Unavailable::new("kernel cache", why, hint)
}

impl Cache {
    /// Opens the user's folder: `$XDG_CACHE_HOME/plimsoll/cubin`, else `~/.cache/plimsoll/cubin`.
    ///
    /// # Errors
    /// Neither variable holds an absolute path; those of [`Cache::open`].
    pub fn open_default() -> Result<Self, Unavailable> {
        let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let base = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")));
        let base = base.ok_or_else(|| refused("neither XDG_CACHE_HOME nor HOME is an absolute path".to_owned()))?;
        Self::open(&base.join("plimsoll").join("cubin"))
    }

    /// Opens this folder, or creates it with mode 0700.
    ///
    /// # Errors
    /// It can't be made or written, belongs to another user, or is open to others.
    pub fn open(folder: &Path) -> Result<Self, Unavailable> {
        let shown = folder.display();
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
        made.map_err(|error| refused(format!("can't create {shown}: {error}")))?;
        // A link is not followed: its owner could choose the target.
        let about = fs::symlink_metadata(folder).map_err(|error| refused(format!("can't read {shown}: {error}")))?;
        if !about.is_dir() {
            return Err(refused(format!("{shown} is not a folder")));
        }
        if about.uid() != rustix::process::geteuid().as_raw() {
            return Err(refused(format!("{shown} belongs to another user")));
        }
        if about.mode() & 0o077 != 0 {
            let own = fs::set_permissions(folder, fs::Permissions::from_mode(0o700));
            own.map_err(|error| refused(format!("{shown} is open to others: {error}")))?;
        }
        // Only writing shows whether it can be written: the mode doesn't show a read-only mount.
        tempfile::NamedTempFile::new_in(folder).map_err(|error| refused(format!("can't write to {shown}: {error}")))?;
        Ok(Self { folder: folder.to_owned() })
    }

    /// Its path.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn path(&self, key: &Key) -> PathBuf {
        self.folder.join(format!("{}.cubin", key.0))
    }

    /// The entry under `key`, if it exists and is intact. A damaged one counts as absent and is replaced by the next
    /// [`Cache::put`].
    #[must_use]
    pub fn get(&self, key: &Key) -> Option<Vec<u8>> {
        let file = fs::File::open(self.path(key)).ok()?;
        let about = file.metadata().ok()?;
        if !about.is_file() || about.uid() != rustix::process::geteuid().as_raw() {
            return None;
        }
        let mut bytes = Vec::new();
        file.take(LARGEST).read_to_end(&mut bytes).ok()?;
        let content = bytes.len().checked_sub(TRAILER)?;
        let whole = bytes[content..] == trailer(key, &bytes[..content]);
        bytes.truncate(content);
        whole.then_some(bytes)
    }

    /// Stores an entry atomically.
    ///
    /// # Errors
    /// File system errors; the caller still has the content and can continue.
    pub fn put(&self, key: &Key, content: &[u8]) -> io::Result<()> {
        let mut file = tempfile::NamedTempFile::new_in(&self.folder)?;
        file.write_all(content)?;
        file.write_all(&trailer(key, content))?;
        file.persist(self.path(key)).map_err(|error| error.error)?;
        Ok(())
    }
}

/// Hash of key and content, so that an entry under another key's name is rejected too.
fn trailer(key: &Key, content: &[u8]) -> [u8; TRAILER] {
    let mut hasher = blake3::Hasher::new_derive_key(DOMAIN);
    hasher.update(key.0.as_bytes());
    hasher.update(content);
    hasher.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache() -> (tempfile::TempDir, Cache) {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(&folder.path().join("cubin")).unwrap();
        (folder, cache)
    }

    #[test]
    fn an_entry_is_returned_for_its_own_key_only() {
        let (_folder, cache) = cache();
        let key = Key::from_parts([b"source".as_slice(), b"-O3"]);
        cache.put(&key, b"content").unwrap();
        assert_eq!(cache.get(&key).as_deref(), Some(b"content".as_slice()));
        assert_eq!(cache.get(&Key::from_parts([b"sourc".as_slice(), b"e-O3"])), None);
    }

    #[test]
    fn a_damaged_truncated_empty_or_foreign_entry_is_absent_and_can_be_replaced() {
        let (_folder, cache) = cache();
        let (key, other) = (Key::from_parts([b"a".as_slice()]), Key::from_parts([b"b".as_slice()]));
        cache.put(&key, b"content").unwrap();
        let whole = fs::read(cache.path(&key)).unwrap();
        for place in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[place] ^= 1;
            fs::write(cache.path(&key), &damaged).unwrap();
            assert_eq!(cache.get(&key), None, "a flipped bit in byte {place}");
            fs::write(cache.path(&key), &whole[..place]).unwrap();
            assert_eq!(cache.get(&key), None, "cut to {place} bytes");
        }
        fs::write(cache.path(&other), &whole).unwrap();
        assert_eq!(cache.get(&other), None, "another key's entry");
        cache.put(&key, b"content").unwrap();
        assert!(cache.get(&key).is_some());
    }

    #[test]
    fn the_folder_is_closed_to_others_and_a_file_or_link_in_its_place_is_refused() {
        let (folder, cache) = cache();
        assert_eq!(fs::metadata(cache.folder()).unwrap().mode() & 0o777, 0o700);
        fs::set_permissions(cache.folder(), fs::Permissions::from_mode(0o755)).unwrap();
        Cache::open(cache.folder()).unwrap();
        assert_eq!(fs::metadata(cache.folder()).unwrap().mode() & 0o777, 0o700);
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(Cache::open(&file).unwrap_err().why.contains("can't create"));
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(cache.folder(), &link).unwrap();
        assert!(Cache::open(&link).unwrap_err().why.contains("not a folder"));
    }

    #[test]
    fn concurrent_writers_never_expose_a_partial_entry() {
        let (_folder, cache) = cache();
        let key = Key::from_parts([b"shared".as_slice()]);
        let content = vec![7_u8; 1 << 16];
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        cache.put(&key, &content).unwrap();
                        assert_eq!(cache.get(&key).as_deref(), Some(content.as_slice()));
                    }
                });
            }
        });
        assert_eq!(fs::read_dir(cache.folder()).unwrap().count(), 1);
    }
}
