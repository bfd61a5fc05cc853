//! Compiled kernels on disk: one file per key, written whole or not at all, believed only after its hash was checked.
//! What is compiled, and how, is `compile`'s business. Without a usable folder everything works, only slower.
//!
//! Several processes may share a folder: each writes a temporary file of its own and renames it, and two that compile the
//! same kernel replace each other's equal entry. The folder belongs to this user and to nobody else (mode 0700), because
//! what is in it runs on the device with this user's rights; the hash guards against damage, not against malice.

use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use plimsoll_gpu::Unavailable;

/// Length of the hash at an entry's end, bytes.
const TRAILER: usize = blake3::OUT_LEN;
/// Largest entry that is read: no cubin of ours comes near.
const LARGEST: u64 = 64 << 20;
/// Says what the hash is of, so that no other program's file passes for an entry.
const DOMAIN: &str = "plimsoll cubin cache v1";

/// The name of an entry: a hash of all that decides what the compiler makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key(String);

impl Key {
    /// Of these parts in this order, each by length and content.
    #[must_use]
    pub fn of<'p>(parts: impl IntoIterator<Item = &'p [u8]>) -> Self {
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
    let hint = "Kernels are compiled anew each time; give this user a folder of its own in XDG_CACHE_HOME";
    Unavailable::new("kernel cache", why, hint)
}

impl Cache {
    /// The user's folder: `$XDG_CACHE_HOME/plimsoll/cubin`, else `~/.cache/plimsoll/cubin`.
    ///
    /// # Errors
    /// Neither is set to an absolute path; else those of [`Cache::open`].
    pub fn of_user() -> Result<Self, Unavailable> {
        let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let base = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")));
        let base = base.ok_or_else(|| refused("neither XDG_CACHE_HOME nor HOME is an absolute path".to_owned()))?;
        Self::open(&base.join("plimsoll").join("cubin"))
    }

    /// This folder, made with mode 0700 where it isn't there.
    ///
    /// # Errors
    /// It can't be made or written, belongs to another user, or is open to others.
    pub fn open(folder: &Path) -> Result<Self, Unavailable> {
        let shown = folder.display();
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
        made.map_err(|error| refused(format!("can't make {shown}: {error}")))?;
        // Not followed: a link would let its owner choose the place.
        let about = fs::symlink_metadata(folder).map_err(|error| refused(format!("can't look at {shown}: {error}")))?;
        if !about.is_dir() {
            return Err(refused(format!("{shown} is no folder")));
        }
        if about.uid() != rustix::process::geteuid().as_raw() {
            return Err(refused(format!("{shown} belongs to another user")));
        }
        if about.mode() & 0o077 != 0 {
            let own = fs::set_permissions(folder, fs::Permissions::from_mode(0o700));
            own.map_err(|error| refused(format!("{shown} is open to others: {error}")))?;
        }
        // Whether it can be written is found out by writing: modes don't tell of read-only mounts.
        tempfile::NamedTempFile::new_in(folder).map_err(|error| refused(format!("can't write to {shown}: {error}")))?;
        Ok(Self { folder: folder.to_owned() })
    }

    /// Where it is.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn path(&self, key: &Key) -> PathBuf {
        self.folder.join(format!("{}.cubin", key.0))
    }

    /// The entry under `key`, if it is there and whole. A damaged one counts as absent and is replaced by the next
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

    /// Stores an entry, whole or not at all.
    ///
    /// # Errors
    /// The file system's; the caller has the content and goes on.
    pub fn put(&self, key: &Key, content: &[u8]) -> io::Result<()> {
        let mut file = tempfile::NamedTempFile::new_in(&self.folder)?;
        file.write_all(content)?;
        file.write_all(&trailer(key, content))?;
        file.persist(self.path(key)).map_err(|error| error.error)?;
        Ok(())
    }
}

/// Hash of key and content, so that an entry under another's name isn't believed either.
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
    fn an_entry_comes_back_and_another_key_finds_nothing() {
        let (_folder, cache) = cache();
        let key = Key::of([b"source".as_slice(), b"-O3"]);
        cache.put(&key, b"content").unwrap();
        assert_eq!(cache.get(&key).as_deref(), Some(b"content".as_slice()));
        assert_eq!(cache.get(&Key::of([b"sourc".as_slice(), b"e-O3"])), None);
    }

    #[test]
    fn a_damaged_truncated_empty_or_foreign_entry_is_absent_and_can_be_replaced() {
        let (_folder, cache) = cache();
        let (key, other) = (Key::of([b"a".as_slice()]), Key::of([b"b".as_slice()]));
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
        assert!(Cache::open(&file).unwrap_err().why.contains("can't make"));
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(cache.folder(), &link).unwrap();
        assert!(Cache::open(&link).unwrap_err().why.contains("no folder"));
    }

    #[test]
    fn processes_that_share_a_folder_see_whole_entries_or_none() {
        let (_folder, cache) = cache();
        let key = Key::of([b"shared".as_slice()]);
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
