//! Sentences about what could not be measured: one for each kind of fault of a probe, however many points it affected. On a
//! device with little memory there can be hundreds.

use plimsoll_core::record::{FaultRecord, Run};

use crate::text::clean;

/// One sentence for each fault of a run. Faults of one kind in the points of one probe share a sentence.
#[must_use]
pub fn faults(run: &Run) -> Vec<String> {
    let mut kinds: Vec<Vec<&FaultRecord>> = Vec::new();
    for fault in &run.faults {
        match kinds.iter_mut().find(|kind| is_same_kind(kind[0], fault)) {
            Some(kind) => kind.push(fault),
            None => kinds.push(vec![fault]),
        }
    }
    kinds.iter().map(|kind| sentence(run, kind)).collect()
}

fn is_same_kind(a: &FaultRecord, b: &FaultRecord) -> bool {
    let both_in_points = !a.at.is_empty() && !b.at.is_empty();
    (a.device, &a.probe, a.class) == (b.device, &b.probe, b.class)
        && (both_in_points || (&a.at, &a.what) == (&b.at, &b.what))
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
    use crate::synthetic;

    #[test]
    fn out_of_memory_faults_share_one_sentence_per_probe_and_others_get_their_own() {
        let mut run = synthetic::run("Box", "2026-01-02T03:04:05Z", 1.0);
        run.faults.clear();
        for probe in ["roofline", "stream"] {
            for power in 10..30 {
                let fault = Fault::OutOfMemory { asked: 1 << power, free: Some(960) };
                run.faults.push(FaultRecord::from_fault(0, probe, &fault).at_point(0, vec![(1u64 << power).into()]));
            }
        }
        run.faults
            .push(FaultRecord::from_fault(0, "stream", &Fault::Invalid("odd".into())).at_point(0, vec![8.0.into()]));
        run.faults.push(FaultRecord::from_fault(0, "sync", &Fault::Invalid("odd".into())));
        let sentences = faults(&run);
        assert_eq!(sentences.len(), 4, "{sentences:?}");
        let first = &sentences[0];
        assert!(first.starts_with("roofline: 20 points, the first at") && first.contains("1 KiB"), "{first}");
        assert!(sentences[2].starts_with("stream at") && sentences[3].starts_with("sync: odd"), "{sentences:?}");
    }
}
