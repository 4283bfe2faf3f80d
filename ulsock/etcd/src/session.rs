//! A session with one member: a lease that is kept alive, our entries under it, and the entries of all, read once and then
//! watched. It lasts until something fails; then another begins, with the next member and the same lease.

use std::cell::Cell;
use std::convert::Infallible;
use std::time::{Duration, Instant};

use nicd::store::{News, TTL};
use tokio::time::sleep;

use crate::client::{Client, Trouble};
use crate::messages::*;
use crate::wanted::Wanted;

/// Between two signs of life.
const BEAT: Duration = Duration::from_secs(TTL.as_secs() / 3);
/// Of a transaction: etcd's own limit is 128 (`--max-txn-ops`).
const MOST_AT_ONCE: usize = 64;
/// Entries that are asked for at once, and those that are read at all.
const PAGE: i64 = 512;
const MOST: usize = 1 << 16;
/// Until the daemon has taken what it was told.
const NO_ROOM: Duration = Duration::from_millis(5);

/// What lasts longer than a session.
pub struct Keeper<'a> {
    pub wanted: &'a Wanted,
    pub news: &'a News,
    /// The range of keys that is read; and those of them that are ours begin so.
    pub all: &'a str,
    pub own: &'a str,
    pub lease: Cell<Option<i64>>,
    /// When all that we know was known to be so.
    pub in_touch: Cell<Instant>,
    /// All has been read in this session.
    pub complete: Cell<bool>,
}

type Ended = Result<Infallible, Trouble>;

impl Keeper<'_> {
    pub async fn session(&self, mut client: Client) -> Ended {
        self.complete.set(false);
        let lease = self.lease(&mut client).await?;
        self.wanted.set_all();
        tokio::select! {
            ended = self.beat(client.clone(), lease) => ended,
            ended = self.write(client.clone(), lease) => ended,
            ended = self.read(client, lease) => ended,
        }
    }

    /// The one that we have, unless it is over: what is under it does not go for a moment.
    async fn lease(&self, client: &mut Client) -> Result<i64, Trouble> {
        if let Some(lease) = self.lease.get()
            && client.keep_alive(lease).await?
        {
            return Ok(lease);
        }
        let lease = client.grant(TTL).await?;
        self.lease.set(Some(lease));
        Ok(lease)
    }

    async fn beat(&self, mut client: Client, lease: i64) -> Ended {
        loop {
            sleep(BEAT).await;
            if !client.keep_alive(lease).await? {
                return Err(Trouble::Other("our lease is over".to_owned()));
            }
            if self.complete.get() {
                self.in_touch.set(Instant::now());
            }
            self.wanted.mend();
        }
    }

    async fn write(&self, mut client: Client, lease: i64) -> Ended {
        loop {
            let changes = self.wanted.take(MOST_AT_ONCE);
            if changes.is_empty() {
                self.wanted.changed().await;
                continue;
            }
            let operation = |(key, value): (String, Option<String>)| match value {
                Some(value) => Operation::Put(PutRequest {
                    key: key.into_bytes(),
                    value: value.into_bytes(),
                    lease,
                }),
                None => Operation::DeleteRange(DeleteRangeRequest {
                    key: key.into_bytes(),
                }),
            };
            let operations = changes.into_iter().map(operation).collect();
            client.change(operations).await?;
        }
    }

    /// Reads all, and then what changes, again and again: what is too long ago cannot be watched.
    async fn read(&self, mut client: Client, lease: i64) -> Ended {
        loop {
            self.room().await;
            self.news.start();
            let revision = self.read_all(&mut client, lease).await?;
            self.room().await;
            self.news.complete();
            self.wanted.mend();
            self.complete.set(true);
            self.in_touch.set(Instant::now());
            self.watch(&mut client, lease, revision + 1).await?;
        }
    }

    /// Of which revision it is.
    async fn read_all(&self, client: &mut Client, lease: i64) -> Result<i64, Trouble> {
        let mut request = RangeRequest {
            key: self.all.as_bytes().to_vec(),
            range_end: end_of(self.all),
            limit: PAGE,
            ..RangeRequest::default()
        };
        let mut read = 0;
        loop {
            let page = match client.range(&request).await {
                // Somebody has put very long values there.
                Err(why) if why.is_too_long() && request.limit > 1 => {
                    request.limit /= 2;
                    continue;
                }
                Err(why) if why.is_too_long() && !request.keys_only => {
                    request.keys_only = true;
                    continue;
                }
                page => page?,
            };
            if request.revision == 0 {
                request.revision = page.header.map_or(0, |header| header.revision);
            }
            read += page.kvs.len();
            let Some(last) = page.kvs.last() else {
                break;
            };
            request.key = [&last.key[..], &[0]].concat();
            for entry in &page.kvs {
                self.put(entry, lease).await;
            }
            if !page.more || read >= MOST {
                break;
            }
            (request.limit, request.keys_only) = (PAGE, false);
        }
        Ok(request.revision)
    }

    /// Until it is too long ago.
    async fn watch(&self, client: &mut Client, lease: i64, from: i64) -> Result<(), Trouble> {
        let request = WatchCreateRequest {
            key: self.all.as_bytes().to_vec(),
            range_end: end_of(self.all),
            start_revision: from,
            fragment: true,
        };
        let mut answers = client.watch(request).await?;
        loop {
            let answer = answers.message().await?;
            let answer = answer.ok_or_else(|| Trouble::Other("the watch has ended".to_owned()))?;
            for event in answer.events {
                let is_put = event.kind == EventType::Put as i32;
                match event.kv {
                    Some(entry) if is_put => self.put(&entry, lease).await,
                    Some(entry) => self.gone(&entry.key).await,
                    None => {}
                }
            }
            if answer.compact_revision != 0 {
                return Ok(());
            }
            if answer.canceled {
                let why = format!("the watch has ended: {}", answer.cancel_reason);
                return Err(Trouble::Other(why));
            }
        }
    }

    async fn put(&self, entry: &KeyValue, lease: i64) {
        if let Some(key) = self.of_ours(&entry.key) {
            // Under another lease it would stay longer, or shorter, than we live.
            let is_ours = entry.lease == lease;
            let value = is_ours.then_some(&entry.value[..]);
            return self.wanted.seen(key, Some(value.unwrap_or_default()));
        }
        self.room().await;
        self.news.put(&entry.key, &entry.value);
    }

    async fn gone(&self, key: &[u8]) {
        if let Some(key) = self.of_ours(key) {
            return self.wanted.seen(key, None);
        }
        self.room().await;
        self.news.gone(key);
    }

    fn of_ours<'k>(&self, key: &'k [u8]) -> Option<&'k str> {
        let key = std::str::from_utf8(key).ok()?;
        key.starts_with(self.own).then_some(key)
    }

    /// Signs of life go on meanwhile.
    pub async fn room(&self) {
        while !self.news.has_room() {
            sleep(NO_ROOM).await;
        }
    }
}

/// The end of a range of keys that begin so.
fn end_of(prefix: &str) -> Vec<u8> {
    let mut end = prefix.as_bytes().to_vec();
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    end
}
