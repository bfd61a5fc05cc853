//! Parses the disassembler's text into functions and instructions, without interpreting the instructions.

use std::collections::HashMap;

use super::control::Control;
use super::instruction::Instruction;
use super::{MAX_LISTING, SassError};

/// Longer lines are neither instructions nor labels.
const MAX_LINE: usize = 4096;

/// Disassembled functions of one cubin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// Target, as named in the text: `sm_80`; `None` if it isn't named.
    pub target: Option<String>,
    /// Functions, in the text's order.
    pub functions: Vec<Function>,
}

/// One disassembled function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Function {
    /// The symbol, as the compiler wrote it.
    pub name: String,
    /// Registers per thread, if the text states them (targets before sm_90).
    pub registers: Option<u32>,
    /// Instructions, in address order.
    pub instructions: Vec<Instruction>,
}

impl Listing {
    /// Parses the output of `nvdisasm -c`. Lines that are neither instructions nor labels are skipped, because the text has many
    /// other kinds.
    ///
    /// # Errors
    /// [`SassError::TooLarge`] and [`SassError::NoFunction`].
    pub fn parse(text: &str) -> Result<Self, SassError> {
        if text.len() > MAX_LISTING {
            return Err(SassError::TooLarge { what: "a listing", bytes: text.len(), limit: MAX_LISTING });
        }
        let mut reader = Reader::default();
        for line in text.lines().filter(|line| line.len() <= MAX_LINE) {
            reader.line(line);
        }
        reader.finish_function();
        if reader.listing.functions.is_empty() {
            return Err(SassError::NoFunction);
        }
        Ok(reader.listing)
    }

    /// The function of this name.
    #[must_use]
    pub fn function(&self, name: &str) -> Option<&Function> {
        self.functions.iter().find(|function| function.name == name)
    }
}

#[derive(Default)]
struct Reader {
    listing: Listing,
    function: Option<Function>,
    /// Index of the instruction after each label of the function.
    labels: HashMap<String, usize>,
    /// Instructions that refer to a label or an address, by index.
    jumps: Vec<(usize, Jump)>,
}

enum Jump {
    Label(String),
    Address(u32),
}

impl Reader {
    fn line(&mut self, line: &str) {
        let mut words = line.split([',', ' ', '\t']).filter(|word| !word.is_empty());
        let first = words.next();
        if first == Some(".section") {
            self.finish_function();
            let name = words.next().unwrap_or_default();
            if let Some(name) = name.strip_prefix(".text.") {
                self.function = Some(Function { name: name.to_owned(), ..Function::default() });
            }
            return;
        }
        if first == Some(".target") {
            self.listing.target = words.next().map(str::to_owned);
            return;
        }
        let Some(function) = &mut self.function else { return };
        if let Some((_, rest)) = line.split_once("SHI_REGISTERS=") {
            let digits = rest.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
            function.registers = digits.parse().ok();
        } else if let Some(label) = label(line) {
            self.labels.insert(label.to_owned(), function.instructions.len());
        } else if let Some(instruction) = instruction(line) {
            if let Some(jump) = jump(&instruction) {
                self.jumps.push((function.instructions.len(), jump));
            }
            function.instructions.push(instruction);
        } else if let (Some(bits), Some(last)) = (upper_half(line), function.instructions.last_mut()) {
            last.control = Some(Control::from_upper_half(bits));
        }
    }

    fn finish_function(&mut self) {
        let labels = std::mem::take(&mut self.labels);
        let jumps = std::mem::take(&mut self.jumps);
        let Some(mut function) = self.function.take() else { return };
        if function.instructions.is_empty() {
            return;
        }
        for (from, jump) in jumps {
            let to = match jump {
                Jump::Label(label) => labels.get(&label).copied(),
                Jump::Address(address) => function.instructions.binary_search_by_key(&address, |to| to.address).ok(),
            };
            // A label after the last instruction is not a jump target.
            function.instructions[from].target = to.filter(|to| *to < function.instructions.len());
        }
        self.listing.functions.push(function);
    }
}

/// Parses `.L_x_3:` or `name:` at the line's beginning.
fn label(line: &str) -> Option<&str> {
    let label = line.trim_end().strip_suffix(':')?;
    let named = !label.is_empty() && !label.starts_with(char::is_whitespace) && !label.contains(char::is_whitespace);
    named.then_some(label)
}

/// Parses a line like `/*0070*/  @!P0 IMAD.WIDE R2, R0, R3, c[0x0][0x160] ;`.
fn instruction(line: &str) -> Option<Instruction> {
    let (address, rest) = line.trim_start().strip_prefix("/*")?.split_once("*/")?;
    let address = u32::from_str_radix(address.trim(), 16).ok()?;
    let (text, _) = rest.split_once(';')?;
    // Braces join two instructions on old devices.
    let text = text.trim_matches(|c: char| c.is_whitespace() || c == '{' || c == '}');
    let (predicate, text) = match text.strip_prefix('@') {
        Some(guarded) => {
            let (predicate, text) = guarded.split_once(char::is_whitespace)?;
            (Some(predicate.to_owned()), text.trim_start())
        }
        None => (None, text),
    };
    let (mnemonic, operands) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    if !mnemonic.starts_with(|c: char| c.is_ascii_uppercase()) {
        return None;
    }
    Some(Instruction {
        address,
        predicate,
        mnemonic: mnemonic.to_owned(),
        operands: split_operands(operands),
        target: None,
        control: None,
    })
}

/// Parses a line with only `/* 0x000fe200078e00ff */`: the upper half of the previous instruction's encoding. The lower half is at
/// the end of the instruction's line.
fn upper_half(line: &str) -> Option<u64> {
    let digits = line.trim().strip_prefix("/*")?.strip_suffix("*/")?.trim().strip_prefix("0x")?;
    (digits.len() == 16).then(|| u64::from_str_radix(digits, 16).ok()).flatten()
}

/// Splits at commas outside brackets.
fn split_operands(text: &str) -> Vec<String> {
    let mut operands = Vec::new();
    let (mut depth, mut begin) = (0i32, 0);
    for (at, c) in text.char_indices() {
        match c {
            '[' | '(' | '{' => depth += 1,
            ']' | ')' | '}' => depth -= 1,
            ',' if depth <= 0 => {
                operands.push(text[begin..at].trim().to_owned());
                begin = at + 1;
            }
            _ => {}
        }
    }
    let last = text[begin..].trim();
    if !last.is_empty() {
        operands.push(last.to_owned());
    }
    operands
}

/// The jump target that an instruction names: a label in `` `(…)``, or a bare address for branches of older listings.
fn jump(instruction: &Instruction) -> Option<Jump> {
    let last = instruction.operands.last()?;
    if let Some((_, label)) = last.split_once("`(") {
        return Some(Jump::Label(label.split(')').next()?.to_owned()));
    }
    if matches!(instruction.opcode(), "BRA" | "BSSY" | "JMP") {
        return u32::from_str_radix(last.strip_prefix("0x")?, 16).ok().map(Jump::Address);
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TWO: &str = "\
	.target	sm_80

	.section	.text.first,\"ax\",@progbits
	.sectioninfo	@\"SHI_REGISTERS=10\"
first:
.text.first:
        /*0000*/                   MOV R1, c[0x0][0x28] ;
.L_x_0:
        /*0010*/                   LDG.E R3, desc[UR4][R2.64+0x10] ;  /* 0x0000 */
        /*0020*/              @!P0 BRA `(.L_x_0) ;
        /*0030*/               @P1 BRA 0x10 ;
        /*0040*/                   BRA `(.L_x_1) ;
.L_x_1:
	.section	.nv.info,\"\",@\"SHT_CUDA_INFO\"
        /*0000*/ 	.byte	0x04, 0x2f
	.section	.text.second,\"ax\",@progbits
second:
        /*0000*/                   EXIT ;
";

    #[test]
    fn functions_instructions_and_jumps_are_parsed() {
        let listing = Listing::parse(TWO).unwrap();
        assert_eq!(listing.target.as_deref(), Some("sm_80"));
        let names: Vec<&str> = listing.functions.iter().map(|f| f.name.as_str()).collect();
        assert_eq!(names, ["first", "second"]);
        let first = &listing.functions[0];
        assert_eq!(first.registers, Some(10));
        assert_eq!(first.instructions.len(), 5);
        assert_eq!(first.instructions[1].operands, ["R3", "desc[UR4][R2.64+0x10]"]);
        assert_eq!(first.instructions[2].predicate.as_deref(), Some("!P0"));
        let targets: Vec<Option<usize>> = first.instructions.iter().map(|i| i.target).collect();
        assert_eq!(targets, [None, None, Some(1), Some(1), None]);
    }

    #[test]
    fn scheduling_bits_are_read_if_present() {
        let text = ".section .text.k\n\
            /*0000*/ LDC R1, c[0x0][0x28] ;  /* 0x00000a00ff017b82 */\n   /* 0x000ff00000000800 */\n\
            /*0010*/ S2R R0, SR_CTAID.X ;    /* 0x0000000000007919 */\n   /* 0x000e620000002500 */\n/*0020*/ EXIT ;\n";
        let listing = Listing::parse(text).unwrap();
        let stalls: Vec<Option<u8>> =
            listing.functions[0].instructions.iter().map(|i| i.control.map(|control| control.stall)).collect();
        assert_eq!(stalls, [Some(8), Some(1), None]);
    }

    #[test]
    fn text_without_a_function_is_rejected_with_the_command_to_run() {
        for text in ["", "hello\n", ".section .text.f\n", "/*0000*/ EXIT ;"] {
            let error = Listing::parse(text).unwrap_err();
            assert!(error.to_string().contains("nvdisasm -c"), "{text}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_text_never_causes_a_panic(text in "(\\.section \\.text\\.f\n)?([ -~µ]{0,40}\n){0,8}") {
            let _ = Listing::parse(&text);
        }

        #[test]
        fn damaged_listings_never_cause_a_panic(cut in 0..TWO.len(), junk in "[\\[\\](){},;@*/ .A-Z`µ]{0,6}", to in 0..TWO.len()) {
            let text = format!("{}{junk}{}", &TWO[..cut], &TWO[to..]);
            let _ = Listing::parse(&text);
        }
    }
}
