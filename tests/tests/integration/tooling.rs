//! The `ulsock` command and its subcommands, the configuration, the dissector, and the documents.

mod book;
mod command;
pub mod compare;
mod config;
mod diagnosis;
mod dissector;
mod doctor;
mod documents;
mod keys;
mod observed;
mod packages;
mod steering;
