//! Small programs for `ulsock compare`; see `src/bin`.
