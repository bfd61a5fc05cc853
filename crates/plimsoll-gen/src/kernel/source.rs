//! What a file of kernels states of itself: its text, its kernels, and what their machine code is held to.

use std::fmt;

use super::spirv::{Build, Features, NOT_WRITTEN, Spirv};
use super::{AccessRule, KernelDesc};
use crate::Target;

/// Headers that any source may include, by the name that it uses: the compiler gets them as text.
pub const HEADERS: [(&str, &str); 7] = [
    ("device.h", include_str!("../../kernels/device.h")),
    ("bulk_copy.h", include_str!("../../kernels/bulk_copy.h")),
    ("sync.h", include_str!("../../kernels/sync.h")),
    ("clocks.h", include_str!("../../kernels/clocks.h")),
    ("chain.h", include_str!("../../kernels/chain.h")),
    ("walk.h", include_str!("../../kernels/walk.h")),
    ("span.h", include_str!("../../kernels/span.h")),
];

/// What a compiled module may hold besides its kernels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Data {
    /// Nothing.
    #[default]
    Nothing,
    /// The tables that CUDA's sine and cosine in double precision read.
    Tables,
    /// Anything: its launches take a thousand times as long as what that costs.
    Any,
}

/// The code of a kernel for a Vulkan device, or why there is none.
pub type ToSpirv = fn(&KernelDesc, Features) -> Result<Spirv, &'static str>;

/// A file of kernels, compiled as one unit. Two sources are the same where their names are.
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
    /// A source by its probe's name, its text in CUDA C++, and every kernel that the probe may want on a target. Nothing is expected of
    /// its kernels' accesses, and none of them is written for Vulkan.
    #[must_use]
    pub const fn new(name: &'static str, text: &'static str, kernels: fn(Target) -> Vec<KernelDesc>) -> Self {
        let (headers, builds): (&[_], &[_]) = (&[], &[]);
        let spirv: ToSpirv = |_, _| Err(NOT_WRITTEN);
        Self { name, text, kernels, headers, access_rule: AccessRule::Unchecked, data: Data::Nothing, spirv, builds }
    }

    /// With headers of its own, by the name that it uses.
    #[must_use]
    pub const fn with_headers(self, headers: &'static [(&'static str, &'static str)]) -> Self {
        Self { headers, ..self }
    }

    /// With what its kernels are held to, unless they state something else.
    #[must_use]
    pub const fn with_access_rule(self, access_rule: AccessRule) -> Self {
        Self { access_rule, ..self }
    }

    /// With what its modules may hold.
    #[must_use]
    pub const fn with_data(self, data: Data) -> Self {
        Self { data, ..self }
    }

    /// With code for Vulkan: which kernels have it, and the modules that it is taken from.
    #[must_use]
    pub const fn with_spirv(self, spirv: ToSpirv, builds: &'static [Build]) -> Self {
        Self { spirv, builds, ..self }
    }

    /// The probe's name, in messages and names of files.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// The file's text. By itself it has no entry point: [`unit()`](super::unit()) adds them.
    #[must_use]
    pub const fn text(&self) -> &'static str {
        self.text
    }

    /// Every header that it may include: the shared ones and its own.
    #[must_use]
    pub fn headers(&self) -> Vec<(&'static str, &'static str)> {
        HEADERS.iter().chain(self.headers).copied().collect()
    }

    /// Every kernel that its probe may want on this target: what is compiled as one unit and checked without a GPU.
    #[must_use]
    pub fn kernels(&self, target: Target) -> Vec<KernelDesc> {
        (self.kernels)(target)
    }

    /// What its kernels are held to, unless they state something else.
    #[must_use]
    pub const fn access_rule(&self) -> AccessRule {
        self.access_rule
    }

    /// What its modules may hold.
    #[must_use]
    pub const fn data(&self) -> Data {
        self.data
    }

    /// The modules of its code for Vulkan.
    #[must_use]
    pub const fn builds(&self) -> &'static [Build] {
        self.builds
    }

    /// The code of one of its kernels for a Vulkan device.
    ///
    /// # Errors
    /// Why there is none.
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
