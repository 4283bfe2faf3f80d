//! This process and its threads: configuration, signals, sleeping and waking, spinning.

pub mod awake;
pub mod cancel;
pub mod chaos;
pub mod deadline;
pub mod engine_flag;
pub mod handle;
pub mod kernel_calls;
pub mod process;
pub mod read_batching;
pub mod reclaim_timer;
pub mod signal;
pub mod sleep_state;
pub mod spin;
pub mod spinners;
pub mod thread;
pub mod tracer;
pub mod upcalls;
pub mod waits;
pub mod way;
