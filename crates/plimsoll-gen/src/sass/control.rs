//! Scheduling information in an instruction's encoding, which the disassembler prints only as bits: how long the warp stalls after
//! it, which barriers it sets and which it waits for.
//!
//! Layout of the upper 64 of 128 bits, Volta and later: Jia, Maggioni, Staiger and Scarpazza, 'Dissecting the NVIDIA Volta GPU
//! Architecture via Microbenchmarking' (2018), section 2.1. Earlier devices use separate control words, which aren't read.

/// Scheduling information of one instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Control {
    /// Cycles before the warp's next instruction can be issued, 0 to 15.
    pub stall: u8,
    /// The scheduler should keep issuing from this warp.
    pub stays: bool,
    /// Barrier, 0 to 5, that is released when the result has been written.
    pub writes: Option<u8>,
    /// Barrier that is released when the operands have been read.
    pub reads: Option<u8>,
    /// Barriers that the instruction waits for, one bit each.
    pub waits: u8,
}

impl Control {
    /// Decodes the upper half of an instruction.
    #[must_use]
    pub fn from_upper_half(upper: u64) -> Self {
        let bits = |from: u32, count: u32| ((upper >> from) & ((1 << count) - 1)) as u8;
        let barrier = |bits: u8| (bits < 6).then_some(bits);
        Self {
            stall: bits(41, 4),
            stays: bits(45, 1) == 0,
            writes: barrier(bits(46, 3)),
            reads: barrier(bits(49, 3)),
            waits: bits(52, 6),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stalls_and_barriers_are_decoded() {
        // LDC R1, c[0x0][0x28] ; LDC.64 R2 ; SHF.R.S32.HI R7, RZ, 0x1f, R3 of a kernel for sm_90.
        let plain = Control::from_upper_half(0x000f_f000_0000_0800);
        assert_eq!((plain.stall, plain.writes, plain.reads, plain.waits), (8, None, None, 0));
        let sets = Control::from_upper_half(0x000e_2200_0000_0a00);
        assert_eq!((sets.stall, sets.writes, sets.reads, sets.waits), (1, Some(0), None, 0));
        let waits = Control::from_upper_half(0x001f_c800_0001_1403);
        assert_eq!((waits.stall, waits.writes, waits.waits), (4, None, 1));
    }
}
