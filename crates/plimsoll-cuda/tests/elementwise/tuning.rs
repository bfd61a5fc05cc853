//! Tuning the plan of a typed kernel.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use plimsoll_cuda::elementwise::Store;
use plimsoll_expr::{In, InOut, Scalar, trace};

use super::common::Fake;
use super::open;

#[test]
fn tuning_touches_no_tensor_and_is_refused_in_a_recording() {
    let fake = Fake::new();
    let folder = tempfile::tempdir().unwrap();
    let gpu = open(&fake).unwrap().with_store(Some(Store::new(folder.path())));
    let scale = gpu.compile(&trace(|a: Scalar<f32>, x: InOut<f32>| x.set(a * x.get())).unwrap()).unwrap();
    let values: Vec<f32> = (0..1000_u16).map(f32::from).collect();
    let mut x = gpu.upload(&values).unwrap();
    let tuned = scale.tuned(2.0, &mut x, ()).unwrap();
    assert_eq!(x.to_vec().unwrap(), values);
    let found = tuned.tuning().unwrap();
    assert!(found.seconds.is_some() || !found.notes.is_empty(), "{found:?}");
    assert!(scale.tuning().is_none() && tuned.dependent(true).tuning().is_none());
    tuned.run(2.0, &mut x, ()).unwrap();
    let error = gpu.record(|| scale.tuned(2.0, &mut x, ()).map(drop)).unwrap_err().to_string();
    assert!(error.contains("tune it before"), "{error}");
    scale.run(2.0, &mut x, ()).unwrap();
}

#[test]
fn stopped_tuning_keeps_the_planners_plan_and_says_so() {
    let fake = Fake::new();
    let folder = tempfile::tempdir().unwrap();
    let stop = Arc::new(AtomicBool::new(true));
    let gpu = open(&fake).unwrap().with_store(Some(Store::new(folder.path()))).with_stop(&stop);
    let negate = gpu.compile(&trace(|x: In<f32>| -x).unwrap()).unwrap();
    let (x, mut y) = (gpu.zeros::<f32>(1000).unwrap(), gpu.zeros::<f32>(1000).unwrap());
    let tuned = negate.tuned(&x, &mut y).unwrap();
    let found = tuned.tuning().unwrap();
    assert!(!found.is_other && found.notes.iter().any(|note| note.contains("stopped")), "{found:?}");
    tuned.run(&x, &mut y).unwrap();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    stop.store(false, Ordering::Relaxed);
    let found = negate.on_stream(&gpu.fork().unwrap()).tuned(&x, &mut y).unwrap();
    assert!(!found.tuning().unwrap().notes.iter().any(|note| note.contains("stopped")));
}
