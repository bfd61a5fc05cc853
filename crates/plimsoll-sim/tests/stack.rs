//! Records, profiles and reference figures that are nested however deep are read, or refused, on a thread with a stack of 64 KiB, in
//! builds without optimisation too.

mod common;

use common::{header, lines};
use plimsoll_core::record::{Limits, ReadError, Record, read};
use plimsoll_suite::profile::{Profile, ProfileError};
use plimsoll_suite::references;

/// Runs on a thread with the smallest stack that is common (musl's was 80 KiB for long).
fn on_a_small_stack(body: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new().stack_size(64 << 10).spawn(body).unwrap().join().unwrap();
}

/// An object with a field of so many levels, and other fields.
fn nested(levels: usize, (open, close): (&str, &str), fields: &str) -> String {
    format!(r#"{{"x":{}0{},{fields}}}"#, open.repeat(levels), close.repeat(levels))
}

/// Arrays, objects, and arrays that never end.
const DEEP: [(&str, &str); 3] = [("[", "]"), (r#"{"x":"#, "}"), ("[", "")];
const LEVELS: [usize; 6] = [10, 60, 125, 130, 1_000, 300_000];

#[test]
fn a_header_nested_however_deep_is_an_error() {
    for parts in DEEP {
        for levels in LEVELS {
            let line = nested(levels, parts, r#""kind":"run""#);
            on_a_small_stack(move || {
                let error = read(line.as_bytes(), Limits::default()).unwrap_err();
                assert!(matches!(error, ReadError::NotARecord(_)), "{levels} of {parts:?}: {error}");
            });
        }
    }
}

#[test]
fn a_line_nested_however_deep_costs_itself_alone() {
    let (first, last) = (lines([&header("")]), lines([&Record::End { complete: true }]));
    for parts in DEEP {
        for levels in LEVELS {
            for kind in ["series", "point", "finding", "fault", "later"] {
                let line = nested(levels, parts, &format!(r#""kind":"{kind}""#)) + "\n";
                let text = [&first, line.as_bytes(), &last].concat();
                on_a_small_stack(move || {
                    let run = read(&text[..], Limits::default()).unwrap();
                    assert!(run.damaged_lines <= 1, "{levels} of {parts:?} in a {kind}: {:?}", run.damage);
                    assert_eq!(run.end, Some(true), "{levels} of {parts:?} in a {kind}");
                });
            }
        }
    }
}

#[test]
fn profiles_and_references_nested_however_deep_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    for parts in DEEP {
        for levels in LEVELS {
            let text = nested(levels, parts, r#""schema":1"#);
            let path = folder.path().join("profile.json");
            std::fs::write(&path, &text).unwrap();
            on_a_small_stack(move || {
                let error = Profile::load(&path, "x").unwrap_err();
                assert!(matches!(error, ProfileError::Damaged { .. }), "{levels} of {parts:?}: {error}");
                assert!(references::parse(&text).is_err());
            });
        }
    }
}
