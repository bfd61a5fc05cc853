//! Tests of where a profile may be stored, and of its lock.

use super::*;

#[cfg(unix)]
#[test]
fn link_stays_a_link() {
    let dir = tempfile::tempdir().unwrap();
    let (real, link) = (dir.path().join("real.json"), dir.path().join("link.json"));
    profile("", vec![]).store(&real).unwrap();
    std::os::unix::fs::symlink(&real, &link).unwrap();
    profile("", vec![finding("a", "b", 1.0, "")]).keep(&link).unwrap();
    assert!(link.symlink_metadata().unwrap().is_symlink());
    assert_eq!(Profile::load(&real, "GPU-1234").unwrap().unwrap().findings.len(), 1);
}

#[cfg(unix)]
#[test]
fn dangling_link_stays_one_and_the_folder_of_its_target_is_created() {
    let dir = tempfile::tempdir().unwrap();
    let link = dir.path().join("link.json");
    std::os::unix::fs::symlink("new/real.json", &link).unwrap();
    Profile::check_writable(&link, "GPU-1234").unwrap();
    profile("", vec![finding("a", "b", 1.0, "")]).keep(&link).unwrap();
    assert!(link.symlink_metadata().unwrap().is_symlink());
    assert!(Profile::load(&dir.path().join("new/real.json"), "GPU-1234").unwrap().is_some());
    assert!(dir.path().join("new/.real.json.lock").exists(), "all names of a profile share its lock");
}

#[cfg(unix)]
#[test]
fn lock_that_is_no_regular_file_is_refused_without_waiting() {
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("p.json");
    let lock = dir.path().join(".p.json.lock");
    let refused = |what: &str| {
        for refused in [Profile::check_writable(&path, "GPU-1234"), profile("", vec![]).keep(&path).map(drop)] {
            let error = refused.unwrap_err().to_string();
            assert!(error.contains(".p.json.lock") && error.contains("isn't a regular file"), "{what}: {error}");
        }
        assert!(!path.exists(), "{what}");
    };
    symlink("nowhere/else", &lock).unwrap();
    refused("a dangling link");
    std::fs::remove_file(&lock).unwrap();
    std::fs::create_dir(&lock).unwrap();
    refused("a folder");
    std::fs::remove_dir(&lock).unwrap();
    let socket = UnixListener::bind(&lock).unwrap();
    refused("a socket");
    drop(socket);
    std::fs::remove_file(&lock).unwrap();
    if std::process::Command::new("mkfifo").arg(&lock).status().is_ok_and(|made| made.success()) {
        refused("a pipe");
        std::fs::remove_file(&lock).unwrap();
    }
    // A leftover lock file doesn't matter.
    std::fs::write(&lock, "stale").unwrap();
    Profile::check_writable(&path, "GPU-1234").unwrap();
    profile("", vec![]).keep(&path).unwrap();
}

#[test]
fn name_too_long_for_a_lock_file_is_refused_before_measuring() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(format!("{}.json", "n".repeat(248)));
    let error = Profile::check_writable(&path, "GPU-1234").unwrap_err();
    assert!(matches!(error, ProfileError::Io { doing: "lock", .. }), "{error}");
}

#[test]
fn folders_and_empty_paths_are_refused_before_measuring() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["new/", "."] {
        assert!(
            matches!(Profile::check_writable(&dir.path().join(name), "GPU-1234"), Err(ProfileError::Io { .. })),
            "{name}"
        );
    }
    assert!(Profile::check_writable(Path::new(""), "GPU-1234").is_err());
}
