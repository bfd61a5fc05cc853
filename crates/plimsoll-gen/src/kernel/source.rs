//! The files of the probes' kernels: one per probe, one that checks them, and one for the device's clock.

use super::{
    KernelDesc, atomics, check, clock, cluster, copy, dispatch, footprint, gather, incore, l1, l2, lab, latency,
};
use super::{launch, loaded_latency, mix, roofline, stream, strides, sync, tensor, topology, uniformity};
use crate::Target;

/// Files that the sources include, by the name that they use: the compiler gets them as text.
pub const HEADERS: [(&str, &str); 13] = [
    ("device.h", include_str!("../../kernels/device.h")),
    ("bulk_copy.h", include_str!("../../kernels/bulk_copy.h")),
    ("stream_bulk.h", include_str!("../../kernels/stream_bulk.h")),
    ("sync.h", include_str!("../../kernels/sync.h")),
    ("clocks.h", include_str!("../../kernels/clocks.h")),
    ("chain.h", include_str!("../../kernels/chain.h")),
    ("walk.h", include_str!("../../kernels/walk.h")),
    ("span.h", include_str!("../../kernels/span.h")),
    ("wgmma.h", include_str!("../../kernels/wgmma.h")),
    ("tti_block.h", include_str!("../../kernels/lab/tti_block.h")),
    ("tti_check.h", include_str!("../../kernels/lab/tti_check.h")),
    ("pic_blocks.h", include_str!("../../kernels/lab/pic_blocks.h")),
    ("formats.h", include_str!("../../kernels/lab/formats.h")),
];

/// Each source: its probe's name, its file in `kernels/`, and every kernel that the probe may want on a target.
macro_rules! sources {
    ($($source:ident = $name:literal, $file:literal, $kernels:expr;)*) => {
        /// A source file.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Source {
            $(#[doc = concat!("`", $file, "`")] $source,)*
        }

        impl Source {
            /// Every source.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$source),*];

            /// The probe's name, which is the file's without its ending.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$source => $name,)*
                }
            }

            /// The file's text. By itself it has no entry point: [`unit()`](super::unit()) adds them.
            #[must_use]
            pub fn text(self) -> &'static str {
                match self {
                    $(Self::$source => include_str!(concat!("../../kernels/", $file)),)*
                }
            }

            /// Every kernel that its probe may want on this target: what is compiled as one unit and checked without a GPU.
            #[must_use]
            pub fn kernels(self, target: Target) -> Vec<KernelDesc> {
                let kernels: fn(Target) -> Vec<KernelDesc> = match self {
                    $(Self::$source => $kernels,)*
                };
                kernels(target)
            }
        }
    };
}

sources! {
    Stream = "stream", "stream.cu", |target| stream::kernels(target);
    Mix = "mix", "mix.cu", |_| mix::kernels();
    Copy = "copy", "copy.cu", |_| copy::kernels();
    Launch = "launch", "launch.cu", |_| launch::kernels();
    Dispatch = "dispatch", "dispatch.cu", |_| dispatch::kernels();
    Latency = "latency", "latency.cu", |_| latency::kernels();
    Footprint = "footprint", "footprint.cu", |_| footprint::kernels();
    Topology = "topology", "topology.cu", |_| topology::kernels();
    Uniformity = "uniformity", "uniformity.cu", |_| uniformity::kernels();
    LoadedLatency = "loaded-latency", "loaded_latency.cu", |_| loaded_latency::kernels();
    Sync = "sync", "sync.cu", |target| sync::kernels(target);
    Cluster = "cluster", "cluster.cu", |target| cluster::kernels(target);
    Gather = "gather", "gather.cu", |_| gather::kernels();
    Atomics = "atomics", "atomics.cu", |_| atomics::kernels();
    L1 = "l1", "l1.cu", |_| l1::kernels();
    L2 = "l2", "l2.cu", |_| l2::kernels();
    Strides = "strides", "strides.cu", |_| strides::kernels();
    Incore = "incore", "incore.cu", |target| incore::kernels(target);
    Roofline = "roofline", "roofline.cu", |_| roofline::kernels();
    Tensor = "tensor", "tensor.cu", |target| tensor::kernels(target);
    Sectors = "sectors", "lab/sectors.cu", |_| lab::sectors::kernels();
    FetchGranularity = "fetch-granularity", "lab/fetch_granularity.cu", |_| lab::fetch_granularity::kernels();
    L2Reuse = "l2-reuse", "lab/l2_reuse.cu", |_| lab::l2_reuse::kernels();
    Residency = "residency", "lab/residency.cu", |_| lab::residency::kernels();
    Compression = "compression", "lab/compression.cu", |_| lab::compression::kernels();
    Rtm = "rtm", "lab/rtm.cu", |_| lab::rtm::kernels();
    AsyncCopy = "async-copy", "lab/async_copy.cu", |target| lab::async_copy::kernels(target);
    Tti = "tti", "lab/tti.cu", |target| lab::tti::kernels(target);
    WritePath = "write-path", "lab/write_path.cu", |_| lab::write_path::kernels();
    BlockOrder = "block-order", "lab/block_order.cu", |_| lab::block_order::kernels();
    Formats = "formats", "lab/formats.cu", |target| lab::formats::kernels(target);
    Gemm = "gemm", "lab/gemm.cu", |_| lab::gemm::kernels();
    Pic = "pic", "lab/pic.cu", |_| lab::pic::kernels();
    Check = "check", "check.cu", |_| check::kernels();
    Clock = "clock", "clock.cu", |_| clock::kernels();
}
