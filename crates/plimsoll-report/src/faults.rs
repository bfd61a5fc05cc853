//! What could not be measured, in sentences: one for each kind of fault of a probe, however many points it cost, since a
//! small memory refuses hundreds of them.

use plimsoll_core::record::{FaultRecord, Run};

use crate::text::clean;

/// One sentence for each fault of a run, faults of one kind in the points of one probe taken together.
#[must_use]
pub fn faults(run: &Run) -> Vec<String> {
    let mut kinds: Vec<Vec<&FaultRecord>> = Vec::new();
    for fault in &run.faults {
        match kinds.iter_mut().find(|kind| is_alike(kind[0], fault)) {
            Some(kind) => kind.push(fault),
            None => kinds.push(vec![fault]),
        }
    }
    kinds.iter().map(|kind| sentence(run, kind)).collect()
}

fn is_alike(a: &FaultRecord, b: &FaultRecord) -> bool {
    let of_points = !a.at.is_empty() && !b.at.is_empty();
    (a.device, &a.probe, a.class) == (b.device, &b.probe, b.class)
        && (of_points || (&a.at, &a.what) == (&b.at, &b.what))
}

fn sentence(run: &Run, kind: &[&FaultRecord]) -> String {
    let first = kind[0];
    let (probe, what) = (clean(&first.probe), clean(&first.what));
    let place = clean(&first.place(&run.series));
    match (kind.len(), place.as_str()) {
        (_, "") => format!("{probe}: {what} ({})", first.class),
        (1, _) => format!("{probe} at {place}: {what} ({})", first.class),
        (points, _) => format!("{probe}: {points} points, the first at {place}: {what} ({})", first.class),
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_core::Fault;

    use super::*;
    use crate::made;

    #[test]
    fn a_small_memory_is_one_sentence_per_probe_and_other_faults_keep_their_own() {
        let mut run = made::run("Box", "2026-01-02T03:04:05Z", 1.0);
        run.faults.clear();
        for probe in ["roofline", "stream"] {
            for power in 10..30 {
                let fault = Fault::OutOfMemory { asked: 1 << power, free: 960 };
                run.faults.push(FaultRecord::of(0, probe, &fault).at(0, vec![(1u64 << power).into()]));
            }
        }
        run.faults.push(FaultRecord::of(0, "stream", &Fault::Invalid("odd".into())).at(0, vec![8.0.into()]));
        run.faults.push(FaultRecord::of(0, "sync", &Fault::Invalid("odd".into())));
        let told = faults(&run);
        assert_eq!(told.len(), 4, "{told:?}");
        assert!(told[0].starts_with("roofline: 20 points, the first at") && told[0].contains("1 KiB"), "{}", told[0]);
        assert!(told[2].starts_with("stream at") && told[3].starts_with("sync: odd"), "{told:?}");
    }
}
