//! Whether arguments fit a kernel: their number and sizes, which the machine code states. It doesn't state types.

use std::fmt;

use plimsoll_core::text::{join_first, shorten};

use super::{Arguments, Signature};

/// Most characters of an argument or a name in a message: names and raw bytes may be long.
const LONGEST: usize = 60;

/// Arguments that a kernel doesn't take, with the parameters that it takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misfit {
    /// What doesn't fit.
    pub why: String,
    /// The kernel's parameters, one line each, with the arguments given for them.
    pub parameters: Vec<String>,
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)?;
        if self.parameters.is_empty() {
            return Ok(());
        }
        write!(f, "\n{}", join_first(self.parameters.iter().cloned(), "\n", "\n"))
    }
}

impl std::error::Error for Misfit {}

/// Checks arguments against a kernel's parameters.
///
/// # Errors
/// The number of the first parameter that doesn't fit, with the size expected and the size given.
pub fn check(signature: &Signature, arguments: &Arguments) -> Result<(), Misfit> {
    let given: Vec<(String, u64)> =
        arguments.0.iter().map(|argument| (shorten(&argument.to_string(), LONGEST), argument.bytes())).collect();
    check_sizes(signature, &given)
}

/// Checks the sizes of arguments, each with its name for messages.
///
/// # Errors
/// Those of [`check`].
pub fn check_sizes(signature: &Signature, given: &[(String, u64)]) -> Result<(), Misfit> {
    let own = &signature.parameters;
    let name = shorten(&signature.name, LONGEST);
    let wrong = own.iter().zip(given).position(|(parameter, (_, bytes))| parameter.bytes != *bytes);
    let why = match wrong {
        _ if own.len() != given.len() => {
            format!("{name} takes {}, and {} given", arguments(own.len()), were(given.len()))
        }
        Some(place) => {
            let ((text, bytes), expected) = (&given[place], own[place].bytes);
            format!("parameter {} of {name} has {expected} bytes, and '{text}' has {bytes}", place + 1)
        }
        None => return Ok(()),
    };
    let most = own.len().max(given.len());
    let line = |place: usize| {
        let takes = own.get(place).map_or("takes nothing".to_owned(), |parameter| {
            format!("{} bytes at offset {}", parameter.bytes, parameter.offset)
        });
        let has = given.get(place).map_or("nothing".to_owned(), |(text, bytes)| format!("{text} ({bytes} bytes)"));
        format!("parameter {}: {takes}; given: {has}", place + 1)
    };
    Err(Misfit { why, parameters: (0..most).map(line).collect() })
}

fn arguments(count: usize) -> String {
    if count == 1 { "1 argument".to_owned() } else { format!("{count} arguments") }
}

fn were(count: usize) -> String {
    if count == 1 { "1 was".to_owned() } else { format!("{count} were") }
}

#[cfg(test)]
mod tests {
    use super::super::Cubin;
    use super::*;

    /// Kernels for sm_80: `spills(float *, long)` and `shares(float *, int)`.
    const CUBIN: &[u8] = include_bytes!("../../tests/data/resources.sm_80.cubin");

    fn fit(arguments: &str) -> Result<(), Misfit> {
        let cubin = Cubin::new(CUBIN.to_vec()).unwrap();
        check(cubin.kernel(Some("shares")).unwrap(), &arguments.parse().unwrap())
    }

    #[test]
    fn arguments_of_the_right_sizes_fit() {
        for arguments in ["in:f32:8 i32:3", "u64:0 f32:3", "bytes:0011223344556677 bytes:00000000"] {
            assert_eq!(fit(arguments), Ok(()), "{arguments}");
        }
    }

    #[test]
    fn a_misfit_names_the_parameter_both_sizes_and_all_parameters() {
        let wrong = fit("in:f32:8 u64:3").unwrap_err();
        assert_eq!(wrong.why, "parameter 2 of shares has 4 bytes, and 'u64:3' has 8");
        assert_eq!(
            wrong.parameters,
            [
                "parameter 1: 8 bytes at offset 0; given: in:f32:8 (8 bytes)",
                "parameter 2: 4 bytes at offset 8; given: u64:3 (8 bytes)"
            ]
        );
        assert_eq!(fit("in:f32:8").unwrap_err().why, "shares takes 2 arguments, and 1 was given");
        let many = fit("in:f32:8 i32:3 i32:3").unwrap_err().to_string();
        assert!(many.ends_with("parameter 3: takes nothing; given: i32:3 (4 bytes)"), "{many}");
        let most = fit(&"u8:1 ".repeat(1000)).unwrap_err().to_string();
        assert!(most.lines().count() == 10 && most.ends_with("\nand 992 more"), "{most}");
    }
}
