//! A user's cubin and its kernels.

use plimsoll_core::text::{list_names, shorten};

use super::Signature;
use crate::sass::{Image, SassError, elf};

/// Most characters of a name that an error quotes.
const LONGEST_NAME: usize = 80;

/// A checked cubin with what it states about its kernels.
#[derive(Clone, Debug)]
pub struct Cubin {
    image: Image,
    kernels: Vec<Signature>,
}

/// Why there is no such cubin or kernel.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CubinError {
    /// It is no intact cubin.
    #[error(transparent)]
    Damaged(#[from] SassError),
    /// It has no kernel at all.
    #[error("the cubin has no kernel")]
    NoKernel,
    /// It has several kernels, and none was chosen.
    #[error("the cubin has several kernels: choose one of {}", list_names(.known))]
    Several {
        /// Their names.
        known: Vec<String>,
    },
    /// It has no kernel of this name.
    #[error("the cubin has no kernel '{}'; it has {}", shorten(name, LONGEST_NAME), list_names(.known))]
    Unknown {
        /// The name.
        name: String,
        /// The names of its kernels.
        known: Vec<String>,
    },
}

impl Cubin {
    /// Checks a file and reads what it states about its kernels.
    ///
    /// # Errors
    /// [`CubinError::Damaged`] if it isn't an intact cubin of at most 256 MiB; [`CubinError::NoKernel`].
    pub fn new(bytes: Vec<u8>) -> Result<Self, CubinError> {
        let image = Image::new(bytes)?;
        let resources = elf::resources(image.bytes())?;
        let complete = |signature: &Signature| {
            let mut signature = signature.clone();
            if let Some(found) = resources.iter().find(|found| found.name == signature.name) {
                signature.registers = (found.registers > 0).then_some(found.registers);
                (signature.local_bytes, signature.shared_bytes) = (found.local_bytes, found.shared_bytes);
            }
            signature
        };
        let kernels: Vec<Signature> = image.signatures().map(complete).collect();
        if kernels.is_empty() { Err(CubinError::NoKernel) } else { Ok(Self { image, kernels }) }
    }

    /// The checked file.
    #[must_use]
    pub fn image(&self) -> &Image {
        &self.image
    }

    /// Its kernels, by name.
    #[must_use]
    pub fn kernels(&self) -> &[Signature] {
        &self.kernels
    }

    /// The compute capability times ten that it is compiled for; `None` if it doesn't say.
    #[must_use]
    pub fn capability(&self) -> Option<u32> {
        self.image.capability()
    }

    /// The kernel of this name, or the only one. A C++ name that isn't `extern "C"` may be given without its mangling if only one
    /// kernel has it.
    ///
    /// # Errors
    /// [`CubinError::Unknown`] and [`CubinError::Several`], with the names of its kernels.
    pub fn kernel(&self, name: Option<&str>) -> Result<&Signature, CubinError> {
        let known = || self.kernels.iter().map(|kernel| kernel.name.clone()).collect();
        let Some(name) = name else {
            let [only] = &self.kernels[..] else { return Err(CubinError::Several { known: known() }) };
            return Ok(only);
        };
        if let Some(exact) = self.kernels.iter().find(|kernel| kernel.name == name) {
            return Ok(exact);
        }
        let mut mangled = self.kernels.iter().filter(|kernel| last_identifier(&kernel.name) == Some(name));
        match (mangled.next(), mangled.next()) {
            (Some(only), None) => Ok(only),
            _ => Err(CubinError::Unknown { name: name.to_owned(), known: known() }),
        }
    }
}

/// The function's own name in a mangled one. Itanium C++ ABI: `_Z`, for a function in namespaces `N`, then each identifier after its
/// length.
fn last_identifier(mangled: &str) -> Option<&str> {
    let mut rest = mangled.strip_prefix("_Z")?;
    rest = rest.strip_prefix('N').unwrap_or(rest);
    let nested = mangled.starts_with("_ZN");
    let mut last = None;
    loop {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let Ok(length) = rest[..digits].parse::<usize>() else { return last };
        last = Some(rest.get(digits..digits.checked_add(length)?)?);
        rest = &rest[digits + length..];
        if !nested {
            return last;
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_name_of_a_mangled_function_is_its_last_identifier() {
        let names = [
            "_Z5scalePKfPf",
            "_ZN4fast5scaleEPf",
            "_Z15scale_by_vectorPf",
            "_Z3fooP5scale",
            "_ZN5scale3fooEv",
            "_Z99x",
            "scale",
        ];
        let expected = [Some("scale"), Some("scale"), Some("scale_by_vector"), Some("foo"), Some("foo"), None, None];
        assert_eq!(names.map(super::last_identifier), expected);
    }

    use proptest::prelude::*;

    use super::*;

    const TWO: &[u8] = include_bytes!("../../tests/data/resources.sm_80.cubin");
    const ONE: &[u8] = include_bytes!("../../tests/data/module_data.sm_80.cubin");
    /// For sm_90, see `tests/data/custom.cu`.
    const STATED: &[u8] = include_bytes!("../../tests/data/custom.sm_90.cubin");

    #[test]
    fn kernels_are_listed_with_their_resources() {
        let cubin = Cubin::new(TWO.to_vec()).unwrap();
        let found: Vec<_> = cubin.kernels().iter().map(|one| (&*one.name, one.registers, one.shared_bytes)).collect();
        assert_eq!(found, [("shares", Some(10), 1024), ("spills", Some(32), 0)]);
        assert_eq!((cubin.capability(), cubin.kernels()[1].local_bytes), (Some(80), 256));
        assert_eq!(Cubin::new(STATED.to_vec()).unwrap().capability(), Some(90));
    }

    #[test]
    fn parameters_and_blocks_are_those_of_the_source() {
        let cubin = Cubin::new(STATED.to_vec()).unwrap();
        let kernel = |name| cubin.kernel(Some(name)).unwrap();
        let scale = kernel("scale");
        let places: Vec<_> = scale.parameters.iter().map(|one| (one.offset, one.bytes)).collect();
        assert_eq!((places, scale.most_threads), (vec![(0, 8), (8, 8), (16, 4), (20, 4)], Some([256, 1, 1])));
        let strided = kernel("strided");
        let places: Vec<_> = strided.parameters.iter().map(|one| (one.offset, one.bytes)).collect();
        assert_eq!((places, strided.parameter_bytes()), (vec![(0, 8), (8, 8), (16, 8), (24, 24), (48, 1)], 49));
        // 256 bytes, after those that are reserved.
        assert_eq!((strided.block, strided.cluster, strided.shared_bytes), (None, None, 1024 + 256));
        assert_eq!((kernel("fixed").block, kernel("clustered").cluster), (Some([64, 2, 1]), Some([2, 1, 1])));
        assert_eq!(kernel("nothing").parameters, []);
        // A function that a kernel calls is no kernel.
        assert!(cubin.kernels().iter().all(|kernel| !kernel.name.contains("called")), "{:?}", cubin.kernels());
    }

    #[test]
    fn a_name_may_be_left_out_if_there_is_one_kernel_and_unmangled_if_it_is_unique() {
        assert!(Cubin::new(ONE.to_vec()).unwrap().kernel(None).is_ok());
        let cubin = Cubin::new(STATED.to_vec()).unwrap();
        assert_eq!(cubin.kernel(Some("filled")).unwrap().name, "_Z6filledIfEvPT_");
        for (name, words) in [(None, "choose one of "), (Some("scal"), "has no kernel 'scal'; it has ")] {
            let message = cubin.kernel(name).unwrap_err().to_string();
            assert!(
                message.contains(words) && message.contains("clustered, fixed, nothing, scale, strided"),
                "{message}"
            );
        }
    }

    #[test]
    fn names_from_a_file_are_shown_without_control_characters_and_at_most_eight() {
        let known = vec!["\u{1b}[2Jscale\n".to_owned(); 10];
        for error in [
            CubinError::Several { known: known.clone() },
            CubinError::Unknown { name: format!("\u{7}{}", "x".repeat(1000)), known },
        ] {
            let message = error.to_string();
            assert!(!message.contains(char::is_control) && message.len() < 500, "{message}");
            assert!(message.ends_with(r"\u{1b}[2Jscale\n and 2 more"), "{message}");
        }
    }

    #[test]
    fn other_files_are_refused_with_the_reason() {
        for (bytes, why) in [(&b""[..], "not a cubin"), (b"hello", "not a cubin"), (&TWO[..900], "not a cubin")] {
            let message = Cubin::new(bytes.to_vec()).unwrap_err().to_string();
            assert!(message.contains(why), "{message}");
        }
        let mut program = TWO.to_vec();
        program[0x12] = 62;
        assert!(Cubin::new(program).unwrap_err().to_string().contains("another machine"));
    }

    proptest! {
        #[test]
        fn a_damaged_cubin_never_causes_a_panic(at in 0..STATED.len(), byte: u8, end in 0..STATED.len()) {
            let mut cubin = STATED.to_vec();
            cubin[at] = byte;
            for bytes in [cubin.clone(), cubin[..end].to_vec()] {
                if let Ok(cubin) = Cubin::new(bytes) {
                    let _ = (cubin.kernel(None).is_ok(), cubin.kernel(Some("scale")).is_ok(), cubin.capability());
                }
            }
        }
    }
}
