//! Programs as users have them, on kernel TCP and on ulsock: servers with their clients, language runtimes, debuggers, and
//! small ones of our own for single habits.

mod debuggers;
mod go;
mod habits;
mod handing;
mod haproxy;
mod inetd;
mod iperf3;
mod mariadb;
mod memcached;
mod netpipe;
pub mod nginx;
mod pipes;
pub mod postgres;
mod proxies;
mod pysuite;
mod python;
mod redis;
mod redis_replicas;
mod runtimes;
mod sockperf;
mod ssh;
mod startup;
pub mod tls;
mod unix;
