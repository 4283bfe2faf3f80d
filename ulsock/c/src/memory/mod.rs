//! Remote memory and tripwires: the end that exports, and the one that imports.

mod queue;

mod export;

mod import;
