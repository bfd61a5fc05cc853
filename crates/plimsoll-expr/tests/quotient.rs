//! Floored division of floats, checked against exact rational arithmetic from Python's `fractions`: quotients that round up to an
//! integer, quotients too large for every integer to be representable, subnormal numbers, infinities, NaN and zeros.

use plimsoll_expr::oracle::{Element, Precision, evaluate};
use plimsoll_expr::strategy::divisions;
use plimsoll_expr::{DType, Names, Value, parse};
use proptest::prelude::*;

/// The bits of a, b, a // b and a % b.
type Row = [u64; 4];

#[rustfmt::skip]
const F32: [Row; 59] = [
    [0x4a82_9931, 0x3f7c_bb7f, 0x4a84_4972, 0x3f40_a539],
    [0x4c02_9f45, 0x40fa_c973, 0x4a85_565e, 0x3ffc_cb8c],
    [0x7f80_0000, 0x4000_0000, 0x7fc0_0000, 0x7fc0_0000],
    [0xff80_0000, 0x0000_0000, 0x7fc0_0000, 0x7fc0_0000],
    [0x3f80_0000, 0x0000_0000, 0x7f80_0000, 0x7fc0_0000],
    [0xbf80_0000, 0x0000_0000, 0xff80_0000, 0x7fc0_0000],
    [0x0000_0000, 0x0000_0000, 0x7fc0_0000, 0x7fc0_0000],
    [0x0000_0000, 0xc040_0000, 0x8000_0000, 0x8000_0000],
    [0x8000_0000, 0xc040_0000, 0x0000_0000, 0x8000_0000],
    [0x8000_0000, 0x4040_0000, 0x8000_0000, 0x0000_0000],
    [0x3f80_0000, 0x7f80_0000, 0x0000_0000, 0x3f80_0000],
    [0xbf80_0000, 0x7f80_0000, 0xbf80_0000, 0x7f80_0000],
    [0x3f80_0000, 0xff80_0000, 0xbf80_0000, 0xff80_0000],
    [0x0000_0000, 0xff80_0000, 0x8000_0000, 0x8000_0000],
    [0x7fc0_0000, 0x3f80_0000, 0x7fc0_0000, 0x7fc0_0000],
    [0x3f80_0000, 0x7fc0_0000, 0x7fc0_0000, 0x7fc0_0000],
    [0x40f0_0000, 0x4000_0000, 0x4040_0000, 0x3fc0_0000],
    [0xc0f0_0000, 0x4000_0000, 0xc080_0000, 0x3f00_0000],
    [0x40f0_0000, 0xc000_0000, 0xc080_0000, 0xbf00_0000],
    [0xc0f0_0000, 0xc000_0000, 0x4040_0000, 0xbfc0_0000],
    [0x8da2_4260, 0x3f80_0000, 0xbf80_0000, 0x3f80_0000],
    [0xc080_0000, 0x4000_0000, 0xc000_0000, 0x0000_0000],
    [0x4080_0000, 0xc000_0000, 0xc000_0000, 0x8000_0000],
    [0x8000_0001, 0x0000_0001, 0xbf80_0000, 0x0000_0000],
    [0x8000_0001, 0x4040_0000, 0xbf80_0000, 0x4040_0000],
    [0x5888_c4c2, 0xc417_a2f3, 0xd3e6_e635, 0xc37b_297c],
    [0x986e_86cb, 0xfb71_0734, 0x0000_0000, 0x986e_86cb],
    [0xcfde_94cb, 0xc2a7_6800, 0x4caa_2fea, 0xc273_c000],
    [0x436d_56e3, 0xc007_9f5e, 0xc2e0_0000, 0xb7c0_0000],
    [0x3f80_0000, 0x4040_0000, 0x0000_0000, 0x3f80_0000],
    [0xd6ef_e139, 0x40c2_72a8, 0xd59d_e81a, 0x40b8_c4c0],
    [0x4bf7_4176, 0x46fe_e5c0, 0x4478_4000, 0x4619_5480],
    [0x01ba_1193, 0x8000_0001, 0xcc3a_1193, 0x8000_0000],
    [0x8d8e_94b2, 0x8000_0224, 0x5385_36d7, 0x8000_001c],
    [0x03e0_d681, 0x8000_00b3, 0xcaa0_c728, 0x8000_003c],
    [0x8050_684c, 0x8002_6ee4, 0x4204_0000, 0x8000_1ce8],
    [0x821a_f215, 0x0000_087f, 0xc711_e600, 0x0000_0072],
    [0x0571_3dc6, 0x992e_f438, 0xbf80_0000, 0x992e_f438],
    [0x0000_0002, 0xbe42_64aa, 0xbf80_0000, 0xbe42_64aa],
    [0x4040_0000, 0x0000_0001, 0x7f80_0000, 0x0000_0000],
    [0xc671_120d, 0x0000_0008, 0xff80_0000, 0x0000_0000],
    [0x4aa0_a141, 0x8002_d56f, 0xff80_0000, 0x8002_cce9],
    [0x4a46_4142, 0xc039_2648, 0xc989_0f70, 0xc038_def0],
    [0x4f23_cf20, 0x0000_eb76, 0x7f80_0000, 0x0000_7cac],
    [0x476d_91ee, 0x3e6d_0bab, 0x4880_4860, 0x3e6a_9c3f],
    [0xcf8e_b0bd, 0xc43a_f400, 0x4ac3_63ca, 0xc40f_bc00],
    [0xbf80_0000, 0x8000_0001, 0x7f80_0000, 0x8000_0000],
    [0x9585_60a3, 0x7b27_eff6, 0xbf80_0000, 0x7b27_eff6],
    [0xf4a8_8795, 0x8000_e32e, 0x7f80_0000, 0x8000_8c8a],
    [0x8448_c03e, 0x4a9c_443f, 0xbf80_0000, 0x4a9c_443f],
    [0x9bca_26c9, 0x7f00_b43d, 0xbf80_0000, 0x7f00_b43d],
    [0xbcc8_516e, 0x57dc_16f8, 0xbf80_0000, 0x57dc_16f8],
    [0x2d04_6545, 0xdb76_4014, 0xbf80_0000, 0xdb76_4014],
    [0x2ab6_c551, 0xf555_d68d, 0xbf80_0000, 0xf555_d68d],
    [0x873f_f3e0, 0x0000_11de, 0xcbab_e494, 0x0000_06d2],
    [0xd61d_740d, 0xca04_8f3f, 0x4b98_099a, 0xc8e5_57a8],
    [0xd6c0_2964, 0xca61_e0d2, 0x4bd9_c988, 0xc88b_e070],
    [0x5399_913d, 0x471a_c606, 0x4bfe_0142, 0x460c_4b88],
    [0xcff7_01df, 0xc3f5_f400, 0x4b80_8c72, 0xc265_e000],
];

#[rustfmt::skip]
const F64: [Row; 59] = [
    [0x4330_1153_cb3b_9d69, 0x3ffd_71b2_dfd3_7c2b, 0x4321_7661_45a3_9872, 0x3fdf_8e10_3770_59b4],
    [0xc2f0_f906_662b_8672, 0xbfbc_8752_a000_0000, 0x4323_09bb_a2cc_d5a6, 0xbfa1_014c_4000_0000],
    [0x7ff0_0000_0000_0000, 0x4000_0000_0000_0000, 0x7ff8_0000_0000_0000, 0x7ff8_0000_0000_0000],
    [0xfff0_0000_0000_0000, 0x0000_0000_0000_0000, 0x7ff8_0000_0000_0000, 0x7ff8_0000_0000_0000],
    [0x3ff0_0000_0000_0000, 0x0000_0000_0000_0000, 0x7ff0_0000_0000_0000, 0x7ff8_0000_0000_0000],
    [0xbff0_0000_0000_0000, 0x0000_0000_0000_0000, 0xfff0_0000_0000_0000, 0x7ff8_0000_0000_0000],
    [0x0000_0000_0000_0000, 0x0000_0000_0000_0000, 0x7ff8_0000_0000_0000, 0x7ff8_0000_0000_0000],
    [0x0000_0000_0000_0000, 0xc008_0000_0000_0000, 0x8000_0000_0000_0000, 0x8000_0000_0000_0000],
    [0x8000_0000_0000_0000, 0xc008_0000_0000_0000, 0x0000_0000_0000_0000, 0x8000_0000_0000_0000],
    [0x8000_0000_0000_0000, 0x4008_0000_0000_0000, 0x8000_0000_0000_0000, 0x0000_0000_0000_0000],
    [0x3ff0_0000_0000_0000, 0x7ff0_0000_0000_0000, 0x0000_0000_0000_0000, 0x3ff0_0000_0000_0000],
    [0xbff0_0000_0000_0000, 0x7ff0_0000_0000_0000, 0xbff0_0000_0000_0000, 0x7ff0_0000_0000_0000],
    [0x3ff0_0000_0000_0000, 0xfff0_0000_0000_0000, 0xbff0_0000_0000_0000, 0xfff0_0000_0000_0000],
    [0x0000_0000_0000_0000, 0xfff0_0000_0000_0000, 0x8000_0000_0000_0000, 0x8000_0000_0000_0000],
    [0x7ff8_0000_0000_0000, 0x3ff0_0000_0000_0000, 0x7ff8_0000_0000_0000, 0x7ff8_0000_0000_0000],
    [0x3ff0_0000_0000_0000, 0x7ff8_0000_0000_0000, 0x7ff8_0000_0000_0000, 0x7ff8_0000_0000_0000],
    [0x401e_0000_0000_0000, 0x4000_0000_0000_0000, 0x4008_0000_0000_0000, 0x3ff8_0000_0000_0000],
    [0xc01e_0000_0000_0000, 0x4000_0000_0000_0000, 0xc010_0000_0000_0000, 0x3fe0_0000_0000_0000],
    [0x401e_0000_0000_0000, 0xc000_0000_0000_0000, 0xc010_0000_0000_0000, 0xbfe0_0000_0000_0000],
    [0xc01e_0000_0000_0000, 0xc000_0000_0000_0000, 0x4008_0000_0000_0000, 0xbff8_0000_0000_0000],
    [0xb9b4_484b_feeb_c2a0, 0x3ff0_0000_0000_0000, 0xbff0_0000_0000_0000, 0x3ff0_0000_0000_0000],
    [0xc010_0000_0000_0000, 0x4000_0000_0000_0000, 0xc000_0000_0000_0000, 0x0000_0000_0000_0000],
    [0x4010_0000_0000_0000, 0xc000_0000_0000_0000, 0xc000_0000_0000_0000, 0x8000_0000_0000_0000],
    [0xa61b_8aaf_30d3_7d4f, 0x0000_0017_05e3_e3fb, 0xe6f3_23ec_112b_d5c0, 0x0000_0013_f121_6a84],
    [0xc7be_d5c6_347a_7d45, 0x4236_31fb_8491_f3a0, 0xc576_3a6c_fba1_09e5, 0x4228_ca6c_fd6c_d980],
    [0x6cdb_394b_5c20_4bd9, 0x6a23_9e8c_ffd3_00f5, 0x42a6_339c_aa7e_b600, 0x6a1c_bc55_56d2_bbd2],
    [0x1669_a25a_129b_54bc, 0x0000_0000_0000_3f24, 0x58a9_fbab_2f0d_11a9, 0x0000_0000_0000_33c4],
    [0xf28e_4d7e_9764_a512, 0x6e03_d9b6_63a3_5000, 0xc478_6cc1_0086_a5a1, 0x6de2_a40d_3991_0000],
    [0xc91a_fbf2_4f70_b64c, 0x427b_43ae_be4d_9a33, 0xc68f_abcd_ce3a_08d2, 0x426b_c930_30cb_8cea],
    [0x4013_8000_0000_0000, 0xbfd0_0000_0000_0000, 0xc034_0000_0000_0000, 0xbfc0_0000_0000_0000],
    [0xc573_2aac_fcf3_f6b7, 0x4117_876c_08f0_b0ef, 0xc44a_1132_af08_832c, 0x410f_7e9f_3582_f1d0],
    [0x3d9f_5c7a_400e_ae46, 0x8000_7d4a_1d61_82c1, 0xfdd0_0515_008b_5124, 0x8000_4ce1_d92f_8af8],
    [0xd77f_7272_30b5_da20, 0x8000_0003_fc6a_8cdb, 0x7ff0_0000_0000_0000, 0x8000_0000_2492_bc2f],
    [0x90f1_4f0f_40b4_39b2, 0x57a4_f13d_741c_b6e8, 0xbff0_0000_0000_0000, 0x57a4_f13d_741c_b6e8],
    [0x8784_abc5_2cd9_1c5f, 0x8000_0000_0000_00ad, 0x4a2e_9698_ace8_7cda, 0x8000_0000_0000_0094],
    [0x8eee_ada3_b5e2_9c20, 0x0000_002a_60b2_f657, 0xcfb7_2a63_cc77_c9df, 0x0000_0005_368d_3c9d],
    [0xbff0_0000_0000_0000, 0x0000_0000_0000_0001, 0xfff0_0000_0000_0000, 0x0000_0000_0000_0000],
    [0x76e4_d6a0_1b51_3252, 0x0000_02ed_abda_5006, 0x7ff0_0000_0000_0000, 0x0000_0085_12fc_3e56],
    [0xa922_32db_e97d_9fd4, 0x8000_0000_0000_0001, 0x6c42_32db_e97d_9fd4, 0x8000_0000_0000_0000],
    [0x0c9c_9fe4_93ec_8871, 0xace8_6fba_81a7_2ec2, 0xbff0_0000_0000_0000, 0xace8_6fba_81a7_2ec2],
    [0x4008_0000_0000_0000, 0x8000_0000_0000_0001, 0xfff0_0000_0000_0000, 0x8000_0000_0000_0000],
    [0xc38f_a4cd_0373_9847, 0xc038_b50e_9d2f_13dc, 0x4344_7df1_0e01_6cc6, 0xc034_46f4_4d84_93d4],
    [0xde9c_c438_3622_831b, 0x1af2_c691_48c3_aa9a, 0xfff0_0000_0000_0000, 0x1aef_917d_4abd_3c40],
    [0xe317_0cf8_0f93_b927, 0x6cc8_1053_23c5_d29e, 0xbff0_0000_0000_0000, 0x6cc8_1053_23c5_d29e],
    [0x4313_5e11_f525_2722, 0x400d_19fa_3c49_969e, 0x42f5_4be5_a872_d560, 0x400c_fe50_d67b_a0ec],
    [0xc99c_cc3d_61be_d54f, 0x00dd_5a41_413d_a05c, 0xfff0_0000_0000_0000, 0x00c5_35ce_caf1_7dc8],
    [0x0f55_ce8b_46a6_f311, 0xe61b_3b4c_24bd_18ec, 0xbff0_0000_0000_0000, 0xe61b_3b4c_24bd_18ec],
    [0x341f_f2ae_6742_84f2, 0xc054_6050_122d_979c, 0xbff0_0000_0000_0000, 0xc054_6050_122d_979c],
    [0xb396_b3ae_ab01_acc8, 0x7d92_a87a_6bf8_e389, 0xbff0_0000_0000_0000, 0x7d92_a87a_6bf8_e389],
    [0x14f2_21a1_1320_e204, 0xcfac_ba0a_6b9a_e86a, 0xbff0_0000_0000_0000, 0xcfac_ba0a_6b9a_e86a],
    [0x4008_0000_0000_0000, 0xf812_c7d3_2e11_220d, 0xbff0_0000_0000_0000, 0xf812_c7d3_2e11_220d],
    [0x8000_0000_0000_0001, 0x3ff0_0000_0000_0000, 0xbff0_0000_0000_0000, 0x3ff0_0000_0000_0000],
    [0x8cbc_2f15_5c6b_965e, 0x664c_329d_3179_fa84, 0xbff0_0000_0000_0000, 0x664c_329d_3179_fa84],
    [0x2d1b_a954_8f9a_6e24, 0xfe66_bfca_207b_7002, 0xbff0_0000_0000_0000, 0xfe66_bfca_207b_7002],
    [0x4397_95de_3fd4_18e5, 0xc032_a000_0000_0000, 0xc354_42e4_b968_e390, 0xc006_0000_0000_0000],
    [0x45be_2b37_f351_dc76, 0xc20e_69a7_02fc_ee5f, 0xc39f_be4e_c0d4_a286, 0xc1e7_aac4_6a6c_8a80],
    [0xc647_4fda_c321_8ea7, 0xc2d5_0a03_0de5_da10, 0x4361_ba7c_0ea6_cf5e, 0xc2b0_1d47_9e82_2300],
    [0xc675_807a_630f_4692, 0x430d_2934_8266_19f2, 0xc357_9861_9428_54d6, 0x4300_0ee8_d9e8_2d4c],
    [0x4397_4938_0e70_525a, 0xc03c_2341_15db_66e3, 0xc34a_7b7a_71d7_6a3a, 0xc028_ac1b_741a_67f2],
];

/// a // b and a % b in one type.
fn divide(dtype: DType, [a, b]: [Value; 2]) -> [Value; 2] {
    let text = format!("in a: {dtype}, b: {dtype}\nq = a // b\nr = a % b");
    let graph = parse(&text, &Names::default()).unwrap();
    let element = Element { inputs: &[a, b], scalars: &[], coordinates: &[], place: 0 };
    let results = evaluate(&graph, element, Precision::Carried).unwrap();
    [results[0], results[1]]
}

#[test]
fn floored_quotients_match_exact_fractions() {
    for (dtype, rows) in [(DType::F32, &F32[..]), (DType::F64, &F64[..])] {
        for row in rows {
            let [a, b, quotient, rem] = row.map(|bits| dtype.decode(bits));
            let found = divide(dtype, [a, b]);
            assert!(found[0].is_same(quotient), "{a:?} // {b:?} is {:?}, not {quotient:?}", found[0]);
            assert!(found[1].is_same(rem), "{a:?} % {b:?} is {:?}, not {rem:?}", found[1]);
        }
    }
}

#[test]
fn integers_divide_by_zero_and_wrap() {
    for dtype in DType::ALL.into_iter().filter(|dtype| dtype.is_int()) {
        let (low, high) = dtype.range().unwrap();
        let int = |a, b| divide(dtype, [Value::Int(a), Value::Int(b)]).map(Value::as_int);
        for a in [low, low + 1, 0, 1, high] {
            assert_eq!(int(a, 0), [0, a], "{dtype}");
            if low < 0 {
                assert_eq!(int(a, -1), [if a == low { low } else { -a }, 0], "{dtype}");
            }
        }
        assert_eq!(int(7, 2), [3, 1]);
        if low < 0 {
            assert_eq!([int(-7, 2), int(7, -2), int(-7, -2)], [[-4, 1], [-4, -1], [3, -1]]);
        }
    }
}

proptest! {
    #[test]
    fn quotients_and_remainders_are_consistent([a, b] in divisions(DType::F64)) {
        let [quotient, rem] = divide(DType::F64, [a, b]).map(Value::as_f64);
        let (a, b) = (a.as_f64(), b.as_f64());
        prop_assume!(a.is_finite() && b.is_finite() && b != 0.0);
        prop_assert_eq!(rem.is_sign_negative(), b.is_sign_negative());
        prop_assert!(rem.abs() <= b.abs());
        prop_assert_eq!(quotient, quotient.floor());
        // Integers of about 24 bits each: nothing is rounded.
        let [a, b] = [a, b].map(|x| (x.to_bits() >> 40) as f64 - 8e6);
        if b != 0.0 {
            let [quotient, rem] = divide(DType::F64, [a, b].map(Value::Float)).map(Value::as_f64);
            prop_assert_eq!(quotient * b + rem, a);
        }
    }
}
