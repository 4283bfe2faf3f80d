//! `ulsock nicd key`: this host's key pair. The private key is written to its file, once; the public one
//! is printed, for the peers file of every host.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::process::ExitCode;

use ::nicd::identity::{Identity, KEY_FILE};
use clap::Args;

use crate::failure::{Failure, Outcome};

#[derive(Args)]
pub struct KeyOptions {
    /// The file of the private key; one that exists is kept, and its public key printed
    #[arg(long, value_name = "FILE", default_value = KEY_FILE)]
    key: PathBuf,
}

pub fn run(options: &KeyOptions) -> Outcome {
    let identity = match make(options)? {
        Some(identity) => identity,
        None => keep(options)?,
    };
    crate::print::all(&format!("{}\n", identity.public()))?;
    Ok(ExitCode::SUCCESS)
}

/// A new key; `None` if there is one already.
fn make(options: &KeyOptions) -> Result<Option<Identity>, Failure> {
    let file = options.key.display();
    let identity = Identity::generate()
        .map_err(|error| Failure::work(format!("cannot make a key: {error}")))?;
    match identity.store(&options.key) {
        Ok(()) => Ok(Some(identity)),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(None),
        Err(error) => Err(Failure::setup(format!("cannot write {file}: {error}"))),
    }
}

fn keep(options: &KeyOptions) -> Result<Identity, Failure> {
    let file = options.key.display();
    eprintln!("ulsock: {file} exists and is kept; this is its public key");
    Identity::load(&options.key).map_err(|why| Failure::setup(format!("{file} {why}")))
}
