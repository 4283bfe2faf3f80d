//! Errors of the libraries below, in one line.

use std::error::Error;

/// What lies at the bottom of an error: above it are only the names of layers.
pub fn cause(error: &dyn Error) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}
