//! A search with the stand-in driver, whose kernels do nothing. No size fits into its memory, so the search finds nothing, but it
//! still runs to its end, and it stops on request.

mod support;

use std::sync::atomic::{AtomicBool, Ordering};

use plimsoll::prelude::*;
use plimsoll::tune::{Subject, tune};

#[test]
fn search_without_results_ends_and_can_be_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let mut device = support::device(folder.path());
    let graph = trace(|x: In<f32>, y: In<f32>| x + y).unwrap().graph().clone();
    let subjects = [Subject { name: "x + y".to_owned(), graph }];
    let stop = AtomicBool::new(false);
    let mut shares = Vec::new();
    let tuned = tune(&mut device, &subjects, 0.1, &stop, &mut |share| shares.push(share)).unwrap();
    assert!(tuned.table.rows.is_empty() && tuned.found.is_empty() && tuned.ended.is_none());
    assert!(shares.is_sorted() && shares.last().is_some_and(|last| (last - 1.0).abs() < 1e-9), "{shares:?}");
    let stopped = tune(&mut device, &subjects, 0.1, &stop, &mut |_| stop.store(true, Ordering::Relaxed));
    assert!(matches!(stopped.unwrap_err(), Fault::Stopped));
}
