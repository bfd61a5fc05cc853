//! A kernel source file: its text, its kernels, and the rules that their machine code is checked against.

use std::fmt;

use super::spirv::{Build, Features, NOT_WRITTEN, Spirv};
use super::{AccessRule, KernelDesc};
use crate::Target;

/// Headers that any source may include, by the name used there; the compiler receives them as text.
pub const HEADERS: [(&str, &str); 7] =
    headers!("": "device.h", "bulk_copy.h", "sync.h", "clocks.h", "chain.h", "walk.h", "span.h");

/// The data that a compiled module may contain besides its kernels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Data {
    /// None.
    #[default]
    Nothing,
    /// The tables that CUDA's double-precision sine and cosine read.
    Tables,
    /// Anything: the kernels run a thousand times as long as loading the data takes.
    Any,
}

/// Returns a kernel's code for a Vulkan device, or the reason that there is none.
pub type ToSpirv = fn(&KernelDesc, Features) -> Result<Spirv, &'static str>;

/// A file of kernels. Two sources are equal if their names are.
#[derive(Clone, Copy)]
pub struct Source {
    name: &'static str,
    text: &'static str,
    kernels: fn(Target) -> Vec<KernelDesc>,
    headers: &'static [(&'static str, &'static str)],
    access_rule: AccessRule,
    data: Data,
    spirv: ToSpirv,
    builds: &'static [Build],
}

impl Source {
    /// A source with its probe's name, its text in CUDA C++, and a function that lists every kernel that the probe may use
    /// on a target. By default, accesses are not checked and there is no Vulkan code.
    #[must_use]
    pub const fn new(name: &'static str, text: &'static str, kernels: fn(Target) -> Vec<KernelDesc>) -> Self {
        let (headers, builds): (&[_], &[_]) = (&[], &[]);
        let spirv: ToSpirv = |_, _| Err(NOT_WRITTEN);
        Self { name, text, kernels, headers, access_rule: AccessRule::Unchecked, data: Data::Nothing, spirv, builds }
    }

    /// Adds headers of this source, by the name used there.
    #[must_use]
    pub const fn with_headers(self, headers: &'static [(&'static str, &'static str)]) -> Self {
        Self { headers, ..self }
    }

    /// Sets the default access rule of its kernels.
    #[must_use]
    pub const fn with_access_rule(self, access_rule: AccessRule) -> Self {
        Self { access_rule, ..self }
    }

    /// Sets the data that its modules may contain.
    #[must_use]
    pub const fn with_data(self, data: Data) -> Self {
        Self { data, ..self }
    }

    /// Adds code for Vulkan: the function that picks a kernel's code, and the modules it picks from.
    #[must_use]
    pub const fn with_spirv(self, spirv: ToSpirv, builds: &'static [Build]) -> Self {
        Self { spirv, builds, ..self }
    }

    /// The probe's name, used in messages and file names.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// The file's text, without entry points: [`unit()`](super::unit()) adds them.
    #[must_use]
    pub const fn text(&self) -> &'static str {
        self.text
    }

    /// Every header that it may include, both shared and its own.
    #[must_use]
    pub fn headers(&self) -> Vec<(&'static str, &'static str)> {
        HEADERS.iter().chain(self.headers).copied().collect()
    }

    /// Every kernel that its probe may use on this target; they are compiled together and checked without a GPU.
    #[must_use]
    pub fn kernels(&self, target: Target) -> Vec<KernelDesc> {
        (self.kernels)(target)
    }

    /// The default access rule of its kernels.
    #[must_use]
    pub const fn access_rule(&self) -> AccessRule {
        self.access_rule
    }

    /// The data that its modules may contain.
    #[must_use]
    pub const fn data(&self) -> Data {
        self.data
    }

    /// Its modules for Vulkan.
    #[must_use]
    pub const fn builds(&self) -> &'static [Build] {
        self.builds
    }

    /// The code of one of its kernels for a Vulkan device, or the reason that there is none.
    pub fn spirv(&self, kernel: &KernelDesc, features: Features) -> Result<Spirv, &'static str> {
        (self.spirv)(kernel, features)
    }
}

impl PartialEq for Source {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Source {}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}
