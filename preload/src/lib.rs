//! libulsock_preload.so: one thin exported function per libc symbol, nothing else.
//!
//! A hook asks `sockets::api` what becomes of the call and turns the verdict into libc's return
//! value. Hooks never allocate, lock or log; a call that is not about one of our sockets costs the
//! question alone.

#[cfg(not(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu")))]
compile_error!("the hooks mirror glibc's symbols and calling convention on x86_64 Linux");

#[macro_use]
mod macros;
mod errno;
mod list;
mod real;
mod startup;

mod cancellation;
mod confinement;
mod data;
mod epoll;
mod exec;
mod files;
mod fortify;
mod go;
mod io_uring;
mod lifecycle;
mod limits;
mod messages;
mod numbers;
mod options;
mod plugins;
mod process;
mod readiness;
mod signals;
mod spawn_actions;
mod streams;
mod tracer;
