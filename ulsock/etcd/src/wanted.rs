//! What is to be in etcd of this host: the daemon says it, whether etcd is there or not, and the sessions bring it there.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

#[derive(Default)]
pub struct Wanted {
    state: Mutex<State>,
    change: Notify,
    end: Notify,
}

#[derive(Default)]
struct State {
    entries: HashMap<String, String>,
    /// Keys of which etcd may have something else.
    changed: HashSet<String>,
    /// The same, but not our doing: looked after now and then, so that nobody makes us write without end.
    odd: HashSet<String>,
}

impl Wanted {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `None`: nothing is to be there.
    pub fn set(&self, key: String, value: Option<String>) {
        let mut state = self.state();
        match value {
            Some(value) => drop(state.entries.insert(key.clone(), value)),
            None => drop(state.entries.remove(&key)),
        }
        state.changed.insert(key);
        drop(state);
        self.change.notify_one();
    }

    /// Nothing is known of what is there.
    pub fn set_all(&self) {
        let mut state = self.state();
        let keys = state.entries.keys().cloned().collect::<Vec<String>>();
        state.changed.extend(keys);
        drop(state);
        self.change.notify_one();
    }

    /// Something of ours is there, or is not, as it was seen.
    pub fn seen(&self, key: &str, value: Option<&[u8]>) {
        let mut state = self.state();
        let wanted = state.entries.get(key).map(|value| value.as_bytes());
        if wanted != value && state.odd.len() < MOST_ODD {
            state.odd.insert(key.to_owned());
        }
    }

    /// What is not as it should be is changed.
    pub fn mend(&self) {
        let mut state = self.state();
        let odd = std::mem::take(&mut state.odd);
        state.changed.extend(odd);
        drop(state);
        self.change.notify_one();
    }

    /// Some changes to make, each key with its value, or to be removed.
    pub fn take(&self, most: usize) -> Vec<(String, Option<String>)> {
        let mut state = self.state();
        let keys = state.changed.iter().take(most).cloned();
        let keys = keys.collect::<Vec<String>>();
        let mut taken = Vec::new();
        for key in keys {
            state.changed.remove(&key);
            let value = state.entries.get(&key).cloned();
            taken.push((key, value));
        }
        taken
    }

    pub async fn changed(&self) {
        self.change.notified().await;
    }

    pub fn end(&self) {
        self.end.notify_one();
    }

    pub async fn ended(&self) {
        self.end.notified().await;
    }
}

/// Entries that are not as they should be, of which we know at a time.
const MOST_ODD: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    fn take(wanted: &Wanted) -> Vec<(String, Option<String>)> {
        let mut taken = wanted.take(10);
        taken.sort();
        taken
    }

    fn entry(key: &str, value: Option<&str>) -> (String, Option<String>) {
        (key.to_owned(), value.map(str::to_owned))
    }

    #[test]
    fn the_last_word_counts() {
        let wanted = Wanted::default();
        wanted.set("a".to_owned(), Some("1".to_owned()));
        wanted.set("b".to_owned(), Some("2".to_owned()));
        wanted.set("a".to_owned(), None);
        assert_eq!(take(&wanted), [entry("a", None), entry("b", Some("2"))]);
        assert_eq!(take(&wanted), []);
        wanted.set_all();
        assert_eq!(take(&wanted), [entry("b", Some("2"))]);
    }

    #[test]
    fn what_others_have_done_is_mended() {
        let wanted = Wanted::default();
        wanted.set("a".to_owned(), Some("1".to_owned()));
        wanted.set("b".to_owned(), Some("2".to_owned()));
        take(&wanted);
        wanted.seen("a", Some(b"1"));
        wanted.seen("b", None);
        wanted.seen("c", Some(b"3"));
        wanted.seen("d", None);
        assert_eq!(take(&wanted), [], "not at once");
        wanted.mend();
        assert_eq!(take(&wanted), [entry("b", Some("2")), entry("c", None)]);
    }
}
