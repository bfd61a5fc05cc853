//! Where the points of stream lie.

use plimsoll_core::series::{Bytes, Count, Name, Threads};

plimsoll_core::names! {
    /// How stores reach memory.
    pub enum Stores {
        /// Through the caches, which fetch a line before it is written.
        Ordinary = "ordinary",
        /// Past the caches.
        NonTemporal = "non-temporal",
    }
}

plimsoll_core::names! {
    /// How a GPU's kernel covers its arrays.
    pub enum Form {
        /// As many blocks as are resident, each in a loop.
        Persistent = "persistent",
        /// Each block does one tile and ends.
        Blocks = "block launch",
    }
}

plimsoll_core::axes! {
    /// A kernel on all cores.
    pub struct OnAllCores {
        /// One of [`KERNELS`](super::KERNELS).
        kernel: Name,
        /// Its stores.
        stores: Stores,
    }
}

plimsoll_core::axes! {
    /// A kernel on some cores, with ordinary stores.
    pub struct OnSomeCores {
        /// One of [`KERNELS`](super::KERNELS).
        kernel: Name,
        /// Cores that take part, a thread on each.
        threads: Threads,
    }
}

plimsoll_core::axes! {
    /// A kernel as it is fastest on a CPU.
    pub struct BestOnCores {
        /// One of [`KERNELS`](super::KERNELS).
        kernel: Name,
        /// Its stores.
        stores: Stores,
        /// Cores that take part, a thread on each.
        threads: Threads,
    }
}

plimsoll_core::axes! {
    /// A kernel with so many threads on each SM.
    pub struct Occupancy {
        /// One of [`KERNELS`](super::KERNELS).
        kernel: Name,
        /// How it covers its arrays.
        form: Form,
        /// Threads on each SM.
        threads: Threads,
    }
}

plimsoll_core::axes! {
    /// A kernel with what there is to choose on a GPU.
    pub struct Configuration {
        /// One of [`KERNELS`](super::KERNELS).
        kernel: Name,
        /// What its accesses tell the caches, in words.
        hints: Name,
        /// Bytes of one access.
        vector: Bytes,
        /// Accesses of one thread at once.
        unroll: Count,
        /// Threads of a block.
        block: Threads,
    }
}

plimsoll_core::axes! {
    /// A kernel whose output lies further back in its array.
    pub struct Placement {
        /// One of [`KERNELS`](super::KERNELS).
        kernel: Name,
        /// By how many bytes.
        moved as "output moved": Bytes,
    }
}

plimsoll_core::axes! {
    /// A kernel as it is fastest on a GPU.
    pub struct BestConfiguration {
        /// One of [`KERNELS`](super::KERNELS).
        kernel: Name,
        /// What was chosen, in words.
        configuration: Name,
    }
}
