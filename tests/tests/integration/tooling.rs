//! The `ulsock` command and its subcommands, the configuration, the dissector, and the documents.

mod book;
mod capture;
mod command;
pub mod compare;
mod config;
mod ctl;
mod diagnosis;
mod dissector;
mod doctor;
mod documents;
mod keys;
mod observed;
mod packages;
mod steering;
mod terminal;
mod trace;
