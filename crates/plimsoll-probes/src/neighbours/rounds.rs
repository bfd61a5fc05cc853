//! Rounds of disjoint pairs: the schedule of a round-robin tournament.

/// Every two of `devices` devices in rounds of disjoint pairs, lower number first. An even number of devices has N − 1 rounds in
/// which each device appears once; an odd number has N rounds, and one device rests in each.
///
/// Circle method: the last player stays, the others move on by one place in every round. With an odd number of devices the last
/// player is a bye. (T. P. Kirkman, "On a problem in combinations", Cambridge and Dublin Mathematical Journal 2, 1847.)
#[must_use]
pub fn rounds(devices: usize) -> Vec<Vec<(usize, usize)>> {
    let players = devices.next_multiple_of(2);
    let Some(moving) = players.checked_sub(1) else { return Vec::new() };
    let round = |round: usize| {
        let place = |offset: usize| (round + offset) % moving;
        let fixed = (place(0), moving);
        let facing = (1..players / 2).map(|offset| (place(offset), place(moving - offset)));
        let all = std::iter::once(fixed).chain(facing).map(|(a, b)| (a.min(b), a.max(b)));
        let mut pairs: Vec<(usize, usize)> = all.filter(|(_, higher)| *higher < devices).collect();
        pairs.sort_unstable();
        pairs
    };
    (0..moving).map(round).filter(|pairs| !pairs.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn four_devices_meet_in_three_rounds_of_two_pairs() {
        assert_eq!(rounds(4), [[(0, 3), (1, 2)], [(0, 2), (1, 3)], [(0, 1), (2, 3)]]);
    }

    #[test]
    fn two_devices_have_one_round_and_fewer_have_none() {
        assert_eq!(rounds(2), [[(0, 1)]]);
        assert!(rounds(0).is_empty() && rounds(1).is_empty());
    }

    proptest! {
        #[test]
        fn each_pair_meets_once_and_no_device_twice_in_a_round(devices in 0_usize..40) {
            let rounds = rounds(devices);
            let mut met = BTreeSet::new();
            for round in &rounds {
                let mut busy = BTreeSet::new();
                for (a, b) in round {
                    prop_assert!(a < b && *b < devices);
                    prop_assert!(busy.insert(*a) && busy.insert(*b), "{round:?}");
                    prop_assert!(met.insert((*a, *b)), "{a} and {b} meet twice");
                }
                // With an odd number of devices, one rests.
                prop_assert_eq!(busy.len(), devices / 2 * 2);
            }
            prop_assert_eq!(met.len(), devices * devices.saturating_sub(1) / 2);
            let expected = if devices < 2 { 0 } else { devices.next_multiple_of(2) - 1 };
            prop_assert_eq!(rounds.len(), expected);
        }
    }
}
