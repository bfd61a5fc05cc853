//! Axes of the stream series.

use plimsoll_core::series::{Bytes, Count, Name, Threads};

plimsoll_core::names! {
    /// How stores reach memory.
    pub enum Stores {
        /// Through the caches, which fetch a line before it is written.
        Ordinary = "ordinary",
        /// Past the caches.
        NonTemporal = "non-temporal",
    }

    /// How a GPU kernel covers its arrays.
    pub enum Form {
        /// As many blocks as are resident, each in a loop.
        Persistent = "persistent",
        /// Each block processes one tile and exits.
        Blocks = "block launch",
    }
}

plimsoll_core::axes! {
    /// A kernel on all cores.
    pub struct OnAllCores {
        /// One of [`KERNELS`](super::KERNELS).
        kernel: Name,
        /// The kind of stores.
        stores: Stores,
    }

    /// A kernel on some cores, with ordinary stores.
    pub struct OnSomeCores {
        /// One of [`KERNELS`](super::KERNELS).
        kernel: Name,
        /// Active cores, with one thread each.
        threads: Threads,
    }

    /// A kernel's fastest configuration on a CPU.
    pub struct BestOnCores {
        /// One of [`KERNELS`](super::KERNELS).
        kernel: Name,
        /// The kind of stores.
        stores: Stores,
        /// Active cores, with one thread each.
        threads: Threads,
    }

    /// A kernel with a number of threads per SM.
    pub struct Occupancy {
        /// One of [`KERNELS`](super::KERNELS).
        kernel: Name,
        /// How it covers its arrays.
        form: Form,
        /// Threads per SM.
        threads: Threads,
    }

    /// A kernel with its configuration on a GPU.
    pub struct Configuration {
        /// One of [`KERNELS`](super::KERNELS).
        kernel: Name,
        /// Cache hints of its accesses, in words.
        hints: Name,
        /// Bytes of one access.
        vector: Bytes,
        /// Accesses of one thread in flight at once.
        unroll: Count,
        /// Threads of a block.
        block: Threads,
    }

    /// A kernel with its output moved within the array.
    pub struct Placement {
        /// One of [`KERNELS`](super::KERNELS).
        kernel: Name,
        /// Offset of the output in bytes.
        moved as "output moved": Bytes,
    }

    /// A kernel's fastest configuration on a GPU.
    pub struct BestConfiguration {
        /// One of [`KERNELS`](super::KERNELS).
        kernel: Name,
        /// The configuration, in words.
        configuration: Name,
    }
}
