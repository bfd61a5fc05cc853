//! Correction for multiple tests: without it, a comparison of a thousand metrics would fail by chance.

/// Holm's step-down adjusted p-values, in the order of `p`. Rejecting where the adjusted value is at most α keeps the chance
/// of any false rejection at most α, whatever the dependence (S. Holm, Scand. J. Stat. 6, 1979).
#[must_use]
pub fn holm(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|&a, &b| p[a].total_cmp(&p[b]));
    let mut adjusted = vec![0.0; p.len()];
    let mut running = 0.0f64;
    for (rank, &i) in order.iter().enumerate() {
        running = running.max((p.len() - rank) as f64 * p[i]).min(1.0);
        adjusted[i] = running;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn holm_matches_r_s_p_adjust() {
        // R: p.adjust(c(0.01, 0.04, 0.03, 0.005), "holm") is 0.03 0.06 0.06 0.02.
        let got = holm(&[0.01, 0.04, 0.03, 0.005]);
        for (got, want) in got.iter().zip([0.03, 0.06, 0.06, 0.02]) {
            assert!((got - want).abs() < 1e-12, "{got} {want}");
        }
        assert!(holm(&[]).is_empty());
    }

    proptest! {
        #[test]
        fn holm_equals_its_naive_definition(p in prop::collection::vec(0.0..1.0f64, 1..20)) {
            let scaled = |j: usize| {
                let before = p.iter().filter(|&&v| v < p[j]).count();
                ((p.len() - before) as f64 * p[j]).min(1.0)
            };
            for (i, got) in holm(&p).into_iter().enumerate() {
                let naive = (0..p.len()).filter(|&j| p[j] <= p[i]).map(scaled).fold(0.0, f64::max);
                prop_assert!((got - naive).abs() < 1e-12);
            }
        }
    }
}
