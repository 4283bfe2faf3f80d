//! The group's own thread, as the program holds it: it ends when both halves of the member are gone.

use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex};

use super::error::GroupError;
use super::shared::{Note, Shared, lock};
use crate::start::spawn_thread;

pub struct Life {
    shared: Arc<Shared>,
    /// Closed when the thread ends.
    thread: Mutex<Receiver<Result<(), GroupError>>>,
}

/// Tells everybody, however the thread ends.
struct End(Arc<Shared>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl Life {
    /// Starts the thread, and waits until it has begun, which it tells by what it is given.
    pub fn begin(
        shared: &Arc<Shared>,
        run: impl FnOnce(Arc<Shared>, &dyn Fn(Result<(), GroupError>)) + Send + 'static,
    ) -> Result<Life, GroupError> {
        let (tell, thread) = sync_channel(1);
        let theirs = shared.clone();
        spawn_thread("ulsock-group", move || {
            let _end = End(theirs.clone());
            run(theirs, &|begun| drop(tell.try_send(begun)));
            drop(tell);
        })?;
        thread.recv().unwrap_or(Err(GroupError::Ended))?;
        Ok(Life {
            shared: shared.clone(),
            thread: Mutex::new(thread),
        })
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        // In a child of fork there is no thread to wait for.
        if self.shared.is_of_this_process() {
            self.shared.note(Note::End);
            let _ = lock(&self.thread).recv();
        }
    }
}
