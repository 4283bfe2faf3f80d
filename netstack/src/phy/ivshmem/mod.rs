//! Between the virtual machines of one host, over the memory that they share (ivshmem). The kernel
//! module in `kmod/` gives each process its own piece of it.

pub mod uapi;
