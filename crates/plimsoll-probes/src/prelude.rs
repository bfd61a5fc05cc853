//! Names that almost every file of one kind needs. Each file imports its list as a glob and everything else by path.

/// For `mod.rs`: a probe's spec, series, rows and findings.
pub(crate) mod meaning {
    pub(crate) use crate::metrics;
    pub(crate) use plimsoll_core::device::DeviceInfo;
    pub(crate) use plimsoll_core::flag::{Flag, Flags};
    pub(crate) use plimsoll_core::headline::Better::{Less, More};
    pub(crate) use plimsoll_core::headline::Headline;
    pub(crate) use plimsoll_core::record::{Finding, Published};
    pub(crate) use plimsoll_core::sample::{CachePolicy, Figure};
    pub(crate) use plimsoll_core::series::{
        Axes, Bytes, Coordinate, Count, Draw, Estimate, Label, Metric, Name, Quantity, Row, Series, Threads,
        TypedSeries, Value, metric,
    };
    pub(crate) use plimsoll_core::stats::Interval;
    pub(crate) use plimsoll_core::unit::Unit;
    pub(crate) use plimsoll_core::{axes, labels, names};
    pub(crate) use plimsoll_suite::findings::advice::{advice, describe_ratio, ratio};
    pub(crate) use plimsoll_suite::findings::levels::levels;
    pub(crate) use plimsoll_suite::findings::{HOST_PRECISION, LAB, derived, finding, known_rows};
}

/// For `kernels.rs`: descriptions of kernels.
#[cfg(feature = "kernels")]
pub(crate) mod kernels {
    pub(crate) use plimsoll_gen::Target;
    pub(crate) use plimsoll_gen::kernel::spirv::{Features, Spirv, spirv_builds};
    pub(crate) use plimsoll_gen::kernel::{
        AccessRule, Amount, Element, Grid, Hints, Issue, KernelDesc, Output, Source, takes,
    };

    /// A kernel whose threads loop, with `blocks` blocks on each SM.
    pub(crate) fn resident(blocks: u32, source: &'static Source, name: impl Into<String>, threads: u32) -> KernelDesc {
        KernelDesc { grid: Grid::Resident { blocks }, looping: true, ..KernelDesc::new(source, name, threads) }
    }
}

/// For `cpu.rs`: a runner on a CPU.
#[cfg(feature = "cpu")]
pub(crate) mod cpu {
    pub(crate) use plimsoll_core::Fault;
    pub(crate) use plimsoll_core::flag::{Flag, Flags};
    pub(crate) use plimsoll_core::probe::{Case, Depth, Request, Run, Session, Sweep};
    pub(crate) use plimsoll_core::sample::{Batch, Check, Effort, Work};
    pub(crate) use plimsoll_cpu::threads::{Task, Team};
    pub(crate) use plimsoll_cpu::workload::{Lap, TeamLoad, team};
    pub(crate) use plimsoll_cpu::{Cpu, CpuDevice};
    pub(crate) use std::cell::RefCell;
    pub(crate) use std::rc::Rc;
    pub(crate) use std::sync::atomic::{AtomicU64, Ordering};
    pub(crate) use std::sync::{Arc, Mutex, PoisonError};
}

/// For `gpu.rs` and `cuda.rs`: a runner on a GPU.
#[cfg(feature = "gpu")]
pub(crate) mod gpu {
    pub(crate) use crate::TRUST;
    pub(crate) use plimsoll_core::flag::Flags;
    pub(crate) use plimsoll_core::probe::{Case, Depth, Request, Run, Session, Sweep};
    pub(crate) use plimsoll_core::sample::{Check, Effort, Work};
    pub(crate) use plimsoll_core::series::Series;
    pub(crate) use plimsoll_core::{Fault, Traffic};
    pub(crate) use plimsoll_gen::kernel::check::Data;
    pub(crate) use plimsoll_gen::kernel::{Element, Grid, KernelDesc, Op};
    pub(crate) use plimsoll_gen::pattern;
    pub(crate) use plimsoll_gpu::checker::Checker;
    pub(crate) use plimsoll_gpu::in_kernel::{InKernel, LaunchCycles};
    pub(crate) use plimsoll_gpu::kit::{GRAPH, Kit, requested_bytes, runnable};
    pub(crate) use plimsoll_gpu::load::{Action, Load, Shape};
    pub(crate) use plimsoll_gpu::window::fit_arrays;
    pub(crate) use plimsoll_gpu::{Arguments, Gpu, Memory as _, Need, Span};
    pub(crate) use std::rc::Rc;
    pub(crate) use std::sync::Arc;
}
