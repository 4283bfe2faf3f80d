//! Requests: calls with replies between endpoints.

mod caller;
mod requests;
