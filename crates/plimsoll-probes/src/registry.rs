//! The list of probes and of the backends that run each. The entries are in `lib.rs`, those of the experiments in `lab/mod.rs`.

#[cfg(any(feature = "cpu", feature = "kernels"))]
use std::sync::LazyLock;

use plimsoll_core::probe::{Backend, Probe, ProbeSpec};
#[cfg(feature = "cpu")]
use plimsoll_cpu::Cpu;
#[cfg(feature = "cuda")]
use plimsoll_cuda::Cuda;
#[cfg(feature = "kernels")]
use plimsoll_gen::kernel::{SHARED, Source};
#[cfg(feature = "gpu")]
use plimsoll_gpu::Gpu;

use crate::lab;

/// Declares the modules of probes and lists them in display order. Each module declares itself with `probe!`.
macro_rules! registry {
    ($($name:ident),* $(,)?) => {
        $(pub mod $name;)*

        /// Every probe of this module, in display order.
        pub(crate) const SPECS: &[&plimsoll_core::probe::ProbeSpec] = &[$(&$name::SPEC),*];

        /// The sources of this module's kernels.
        #[cfg(feature = "kernels")]
        pub(crate) fn with_kernels() -> Vec<&'static plimsoll_gen::kernel::Source> {
            [$($name::source()),*].into_iter().flatten().collect()
        }

        /// The probes of this module that a CPU runs.
        #[cfg(feature = "cpu")]
        pub(crate) fn on_cpu() -> Vec<&'static dyn plimsoll_core::probe::Probe<plimsoll_cpu::Cpu>> {
            [$($name::on_cpu()),*].into_iter().flatten().collect()
        }

        /// The probes of this module that any GPU runs.
        #[cfg(feature = "gpu")]
        pub(crate) fn on_gpu<G: plimsoll_gpu::Gpu>() -> Vec<&'static dyn plimsoll_core::probe::Probe<G>> {
            [$($name::on_gpu::<G>()),*].into_iter().flatten().collect()
        }

        /// The probes of this module that only CUDA runs.
        #[cfg(feature = "cuda")]
        pub(crate) fn on_cuda() -> Vec<&'static dyn plimsoll_core::probe::Probe<plimsoll_cuda::Cuda>> {
            [$($name::on_cuda()),*].into_iter().flatten().collect()
        }
    };
}

/// Declares a probe: its [`ProbeSpec`] as `SPEC`, with the doc comment as the sentence, and the files of its folder. `cpu`, `gpu` and
/// `cuda` stand for `cpu.rs`, `gpu.rs` and `cuda.rs`: they implement `Run` for `CpuRunner`, `GpuRunner` and `CudaRunner`, which this
/// macro declares. `kernels` stands for `kernels.rs` with a `SOURCE`. Each file needs the feature of its name. `takes bytes` sets
/// [`ProbeSpec::takes_bytes`], `headlines` is [`ProbeSpec::headlines`].
///
/// A new word needs a line `@file`, a line `@find` and a function that finds it.
macro_rules! probe {
    (@file cpu) => { probe!(@runner "cpu" cpu CpuRunner "Runs it on a CPU."); };
    (@file gpu) => { probe!(@runner "gpu" gpu GpuRunner "Runs it on any GPU."); };
    (@file cuda) => { probe!(@runner "cuda" cuda CudaRunner "Runs it on CUDA only."); };
    (@file kernels) => { #[cfg(feature = "kernels")] pub mod kernels; };

    (@runner $feature:literal $module:ident $runner:ident $does:literal) => {
        #[cfg(feature = $feature)]
        pub mod $module;

        #[doc = $does]
        #[cfg(feature = $feature)]
        #[derive(Debug)]
        pub struct $runner;
    };

    (@find cpu cpu) => { probe!(@registered CpuRunner) };
    (@find gpu gpu) => { probe!(@registered GpuRunner) };
    (@find cuda cuda) => { probe!(@registered CudaRunner) };
    (@find kernels kernels) => { Some(&kernels::SOURCE) };
    (@find $wanted:ident $word:ident) => { None };

    (@registered $runner:ident) => {
        Some(const { &plimsoll_core::probe::Registered { spec: &SPEC, runner: $runner } })
    };

    (@takes bytes) => { true };
    (@takes) => { false };

    (
        #[doc = $sentence:literal]
        $name:literal in $group:expr, seconds: $seconds:expr, files: $($word:ident)* $(, takes $bytes:ident)?
        $(, headlines: [$($headline:expr),* $(,)?])?
    ) => {
        #[doc = $sentence]
        pub static SPEC: plimsoll_core::probe::ProbeSpec = plimsoll_core::probe::ProbeSpec {
            name: $name,
            group: $group,
            sentence: $sentence.trim_ascii(),
            seconds: $seconds,
            takes_bytes: probe!(@takes $($bytes)?),
            headlines: &[$($($headline),*)?],
            findings,
        };

        $(probe!(@file $word);)*

        /// The source of its kernels.
        #[cfg(feature = "kernels")]
        pub(crate) fn source() -> Option<&'static plimsoll_gen::kernel::Source> {
            crate::registry::first(&[$(probe!(@find kernels $word)),*])
        }

        /// Its runner on a CPU.
        #[cfg(feature = "cpu")]
        pub(crate) fn on_cpu() -> Option<&'static dyn plimsoll_core::probe::Probe<plimsoll_cpu::Cpu>> {
            crate::registry::first(&[$(probe!(@find cpu $word)),*])
        }

        /// Its runner on any GPU.
        #[cfg(feature = "gpu")]
        pub(crate) fn on_gpu<G: plimsoll_gpu::Gpu>() -> Option<&'static dyn plimsoll_core::probe::Probe<G>> {
            crate::registry::first(&[$(probe!(@find gpu $word)),*])
        }

        /// Its runner on CUDA only.
        #[cfg(feature = "cuda")]
        pub(crate) fn on_cuda() -> Option<&'static dyn plimsoll_core::probe::Probe<plimsoll_cuda::Cuda>> {
            crate::registry::first(&[$(probe!(@find cuda $word)),*])
        }
    };
}

/// The first that a file of the probe has.
#[cfg(any(feature = "cpu", feature = "kernels"))]
pub(crate) fn first<T: ?Sized>(of_files: &[Option<&'static T>]) -> Option<&'static T> {
    of_files.iter().copied().flatten().next()
}

/// Every probe, in the order in which it is listed and run.
pub static ALL: &[&ProbeSpec] = &{
    let mut specs = [crate::SPECS[0]; crate::SPECS.len() + lab::SPECS.len()];
    let (probes, experiments) = specs.split_at_mut(crate::SPECS.len());
    probes.copy_from_slice(crate::SPECS);
    experiments.copy_from_slice(lab::SPECS);
    specs
};

/// Finds a probe by its name.
#[must_use]
pub fn find(name: &str) -> Option<&'static ProbeSpec> {
    ALL.iter().copied().find(|spec| spec.name == name)
}

/// Every kernel source: the probes' in the order of [`ALL`], then those that all backends need.
#[cfg(feature = "kernels")]
#[must_use]
pub fn sources() -> &'static [&'static Source] {
    static SOURCES: LazyLock<Vec<&Source>> =
        LazyLock::new(|| [crate::with_kernels(), lab::with_kernels(), SHARED.to_vec()].concat());
    &SOURCES
}

/// Every probe that a CPU runs, in the order of [`ALL`]: the argument of [`plimsoll_cpu::open`].
#[cfg(feature = "cpu")]
#[must_use]
pub fn cpu_probes() -> &'static [&'static dyn Probe<Cpu>] {
    static PROBES: LazyLock<Vec<&dyn Probe<Cpu>>> = LazyLock::new(|| [crate::on_cpu(), lab::on_cpu()].concat());
    &PROBES
}

/// Every probe that any GPU runs, in the order of [`ALL`].
#[cfg(feature = "gpu")]
#[must_use]
pub fn gpu_probes<G: Gpu>() -> Vec<&'static dyn Probe<G>> {
    [crate::on_gpu(), lab::on_gpu()].concat()
}

/// Every probe that a CUDA device runs, in the order of [`ALL`]: the argument of [`plimsoll_cuda::open`].
#[cfg(feature = "cuda")]
#[must_use]
pub fn cuda_probes() -> &'static [&'static dyn Probe<Cuda>] {
    static PROBES: LazyLock<Vec<&dyn Probe<Cuda>>> =
        LazyLock::new(|| in_order(&[&crate::on_cuda(), &lab::on_cuda(), &gpu_probes()]));
    &PROBES
}

/// Joins lists of probes into one, in the order of [`ALL`].
#[must_use]
pub fn in_order<B: Backend>(lists: &[&[&'static dyn Probe<B>]]) -> Vec<&'static dyn Probe<B>> {
    let mut joined = lists.concat();
    joined.sort_by_key(|probe| ALL.iter().position(|spec| spec.name == probe.spec().name).unwrap_or(ALL.len()));
    joined
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::{Path, PathBuf};

    use plimsoll_suite::findings::LAB;

    use super::*;

    /// A probe's folder: named like its module, below `lab` for an experiment.
    fn folder(spec: &ProbeSpec) -> PathBuf {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let parent = if spec.group == LAB { source.join("lab") } else { source };
        parent.join(spec.name.replace('-', "_"))
    }

    #[test]
    fn every_probe_has_a_page_titled_with_its_name_and_linked_from_the_index() {
        let index = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/method/README.md");
        let index = std::fs::read_to_string(index).unwrap();
        for spec in ALL {
            let path = folder(spec).join("README.md");
            let page = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            assert_eq!(page.lines().next(), Some(format!("# {}", spec.name).as_str()), "{}", path.display());
            assert!(index.contains(&format!("[{}](", spec.name)), "docs/method/README.md lacks {}", spec.name);
        }
    }

    #[test]
    fn probe_names_are_unique() {
        let names: BTreeSet<&str> = ALL.iter().map(|spec| spec.name).collect();
        assert_eq!(names.len(), ALL.len());
    }

    #[cfg(feature = "cpu")]
    #[test]
    fn cpu_probes_list_every_cpu_runner_in_display_order() {
        fn files_below(folder: &Path) -> usize {
            let paths = std::fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path());
            paths
                .map(|path| if path.is_dir() { files_below(&path) } else { usize::from(path.ends_with("cpu.rs")) })
                .sum()
        }
        let names: Vec<&str> = cpu_probes().iter().map(|probe| probe.spec().name).collect();
        let ordered: Vec<&str> = ALL.iter().map(|spec| spec.name).filter(|name| names.contains(name)).collect();
        assert_eq!(names, ordered);
        assert_eq!(names.len(), files_below(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src")));
    }
}
