//! Layouts with extents, strides and offsets near the limits of arithmetic.

use super::*;

proptest! {
    #[test]
    fn any_layout_is_prepared_or_refused_for_a_reason(
        dims in prop::collection::vec((edge(), any::<bool>(), edge()), 0..=4),
        offset in edge(),
        kinds in (0..4_usize, 0..4_usize),
    ) {
        let types = ["i8", "bf16", "f32", "f64"];
        for text in ["y = x + z", "y = x + z + index(0)", "y = x + z + index()"] {
            let text = format!("in x: {}, z: {}; {text}", types[kinds.0], types[kinds.1]);
            let graph = parse(&text, &Names::default()).unwrap();
            let shape: Vec<u64> = dims.iter().map(|(extent, ..)| *extent).collect();
            let signed = |down: bool, stride: i64| if down { stride.wrapping_neg() } else { stride };
            let strides: Vec<i64> = dims.iter().map(|&(_, down, stride)| signed(down, stride as i64)).collect();
            let Ok(strided) = Layout::strided(&shape, &strides, offset) else { continue };
            let Ok(full) = Layout::contiguous(&shape) else { continue };
            for (input, output) in [(&strided, &full), (&full, &strided), (&strided, &strided)] {
                let (inputs, outputs) = ([input.clone(), full.clone()], std::slice::from_ref(output));
                let prepared = Program::new(&graph).prepare(&inputs, outputs, &How::for_threads(1));
                if let Err(error @ Error::Internal(_)) = prepared.map(drop) {
                    prop_assert!(false, "{strided:?}: {error}");
                }
            }
        }
    }
}

/// Numbers near the limits of arithmetic.
fn edge() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => 0..5_u64,
        2 => (0..64_u32, 0..3_u64).prop_map(|(bit, off)| (1_u64 << bit).wrapping_add(off).wrapping_sub(1)),
        1 => Just(i64::MAX as u64),
        1 => any::<u64>(),
    ]
}
