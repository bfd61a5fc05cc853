//! Deeply nested records, profiles and reference figures are read or refused without a stack overflow on a 64 KiB stack, even
//! in builds without optimisation.

mod common;

use common::{header, lines};
use plimsoll_core::record::{Limits, ReadError, Record, read};
use plimsoll_suite::profile::{Profile, ProfileError};
use plimsoll_suite::references;

/// Runs `body` on a thread with a stack smaller than common ones (musl's default was 80 KiB for a long time).
fn run_on_a_small_stack(body: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new().stack_size(64 << 10).spawn(body).unwrap().join().unwrap();
}

/// A JSON object with a field nested `levels` deep, and other `fields`.
fn nested(levels: usize, (open, close): (&str, &str), fields: &str) -> String {
    format!(r#"{{"x":{}0{},{fields}}}"#, open.repeat(levels), close.repeat(levels))
}

/// Nested arrays, objects, and unclosed arrays.
const DEEP: [(&str, &str); 3] = [("[", "]"), (r#"{"x":"#, "}"), ("[", "")];
const LEVELS: [usize; 6] = [10, 60, 125, 130, 1_000, 300_000];

#[test]
fn a_deeply_nested_header_is_an_error() {
    for parts in DEEP {
        for levels in LEVELS {
            let line = nested(levels, parts, r#""kind":"run""#);
            run_on_a_small_stack(move || {
                let error = read(line.as_bytes(), Limits::default()).unwrap_err();
                assert!(matches!(error, ReadError::NotARecord(_)), "{levels} of {parts:?}: {error}");
            });
        }
    }
}

#[test]
fn a_deeply_nested_line_does_not_affect_others() {
    let (first, last) = (lines([&header("")]), lines([&Record::End { complete: true }]));
    for parts in DEEP {
        for levels in LEVELS {
            for kind in ["series", "point", "finding", "fault", "later"] {
                let line = nested(levels, parts, &format!(r#""kind":"{kind}""#)) + "\n";
                let text = [&first, line.as_bytes(), &last].concat();
                run_on_a_small_stack(move || {
                    let run = read(&text[..], Limits::default()).unwrap();
                    assert!(run.damaged_lines <= 1, "{levels} of {parts:?} in a {kind}: {:?}", run.damage);
                    assert_eq!(run.end, Some(true), "{levels} of {parts:?} in a {kind}");
                });
            }
        }
    }
}

#[test]
fn deeply_nested_profiles_and_references_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    for parts in DEEP {
        for levels in LEVELS {
            let text = nested(levels, parts, r#""schema":1"#);
            let path = folder.path().join("profile.json");
            std::fs::write(&path, &text).unwrap();
            run_on_a_small_stack(move || {
                let error = Profile::load(&path, "x").unwrap_err();
                assert!(matches!(error, ProfileError::Damaged { .. }), "{levels} of {parts:?}: {error}");
                assert!(references::parse(&text).is_err());
            });
        }
    }
}
