//! A fault of ptxas 13.0: the registers that a 64-bit `CS2R` writes may be read one cycle before they are written.
//!
//! ptxas leaves at least 6 cycles between a 64-bit `CS2R` and the first use of its result. But of `inside ? i64(count) * stride : 0` it makes
//! `@P0 CS2R R18, SRZ; @!P0 IMAD.WIDE R18, …`, and a sum that follows waits only for the product, which takes 3 cycles. On an H200 such a
//! sum, 5 cycles after the `CS2R`, added the register's old value.
//!
//! The check follows the text, not branches, and knows the registers that an instruction names: of the accumulators of a matrix product
//! only the first.

use super::flow::Uses;
use super::{Function, Instruction};

/// Cycles from the issue of a 64-bit `CS2R` to the first instruction that reads its result.
const CYCLES: u32 = 6;

/// The address of the first instruction that reads the result of a `CS2R` too early.
#[must_use]
pub fn early_read(function: &Function) -> Option<u32> {
    let pairs = function.instructions.iter().enumerate().filter(|(_, instruction)| instruction.opcode() == "CS2R");
    pairs.filter_map(|(place, pair)| early_read_of(pair, &function.instructions[place + 1..])).next()
}

fn early_read_of(pair: &Instruction, after: &[Instruction]) -> Option<u32> {
    let mut written = Uses::from_instruction(pair).results;
    if written.len() < 2 {
        return None;
    }
    let mut cycles = stall(pair);
    for instruction in after {
        if cycles >= CYCLES {
            return None;
        }
        let uses = Uses::from_instruction(instruction);
        if !excludes(pair, instruction) && uses.reads().any(|register| written.contains(register)) {
            return Some(instruction.address);
        }
        if instruction.predicate.is_none() {
            written.retain(|register| !uses.results.contains(register));
        }
        cycles += stall(instruction);
    }
    None
}

/// Cycles before the next instruction can be issued; many if the listing has no encoding.
fn stall(instruction: &Instruction) -> u32 {
    instruction.control.map_or(CYCLES, |control| u32::from(control.stall).max(1))
}

/// Whether at most one of two instructions runs: their guards are opposite.
fn excludes(a: &Instruction, b: &Instruction) -> bool {
    let (Some(a), Some(b)) = (&a.predicate, &b.predicate) else { return false };
    a.strip_prefix('!') == Some(b) || b.strip_prefix('!') == Some(a)
}

#[cfg(test)]
mod tests {
    use super::early_read;
    use crate::sass::Listing;

    /// Part of a kernel whose sum read an old value on an H200. The product's or the zero's last digits say for how many cycles the
    /// next instruction waits.
    fn listing(zero: &str, product: &str) -> Listing {
        let text = format!(
            ".section .text.k\n\
             /*0e30*/  @P0 CS2R R18, SRZ ;  /* 0x0000000000120805 */\n/* {zero} */\n\
             /*0e40*/  @!P0 IMAD.WIDE R18, R23, UR9, RZ ;  /* 0x0000000917128c25 */\n/* {product} */\n\
             /*0e50*/  IADD3 R18, P5, P6, R18, UR7, R12 ;  /* 0x0000000712127c10 */\n/* 0x000fc8000febe00c */\n"
        );
        Listing::parse(&text).unwrap()
    }

    #[test]
    fn a_zero_that_is_read_after_five_cycles_is_found() {
        let (waits_2, waits_3, waits_4) = ("0x002fe4000001ff00", "0x000fc6000f8e02ff", "0x000fc8000f8e02ff");
        assert_eq!(early_read(&listing(waits_2, waits_3).functions[0]), Some(0xe50));
        assert_eq!(early_read(&listing(waits_2, waits_4).functions[0]), None);
    }
}
