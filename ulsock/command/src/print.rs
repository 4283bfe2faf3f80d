//! Output that may be read by somebody who has seen enough.

use std::io::{ErrorKind, Write};

use crate::failure::Failure;

pub fn all(text: &str) -> Result<(), Failure> {
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::work(format!("cannot write: {error}")))
        }
        _ => Ok(()),
    }
}
