//! All keys below a prefix, read page by page as of one revision. How much is kept of them is bounded, whatever is there.

use nicd::source::{Entry, LONGEST_LINE, LONGEST_ORIGIN, MOST_ENTRIES};

use super::Known;
use crate::client::{Client, Trouble};
use crate::messages::{KeyValue, RangeRequest};

/// Entries that are asked for at once.
const PAGE: i64 = 512;

/// What is there, and of which revision that is.
pub async fn read(client: &mut Client, prefix: &str) -> Result<(Known, i64), Trouble> {
    let mut request = RangeRequest {
        key: prefix.as_bytes().to_vec(),
        range_end: end_of(prefix),
        limit: PAGE,
        ..RangeRequest::default()
    };
    let mut known = Known::new();
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
        let last = page.kvs.last().map(|last| [&last.key[..], &[0]].concat());
        for mut entry in page.kvs {
            if request.keys_only {
                entry.value = vec![b'x'; LONGEST_LINE + 1];
            }
            put(&mut known, prefix, entry)?;
        }
        match last.filter(|_| page.more) {
            Some(next) => request.key = next,
            None => return Ok((known, request.revision)),
        }
        (request.limit, request.keys_only) = (PAGE, false);
    }
}

/// One entry more, or another value of it.
pub fn put(known: &mut Known, prefix: &str, entry: KeyValue) -> Result<(), Trouble> {
    let Some(origin) = entry.key.strip_prefix(prefix.as_bytes()) else {
        return Err(Trouble::Other("it tells of other keys".to_owned()));
    };
    let line = Entry {
        since: entry.create_revision,
        ..Entry::new(origin, &entry.value)
    };
    known.insert(place(prefix, &entry.key), line);
    match known.len() > MOST_ENTRIES {
        true => Err(Trouble::Other(format!(
            "more than {MOST_ENTRIES} keys are there"
        ))),
        false => Ok(()),
    }
}

pub fn remove(known: &mut Known, prefix: &str, key: &[u8]) {
    known.remove(&place(prefix, key));
}

/// Keys that are too long for a name are not kept as a whole: any of them stands for all that begin like it.
fn place(prefix: &str, key: &[u8]) -> Vec<u8> {
    let longest = prefix.len() + LONGEST_ORIGIN + 1;
    key[..key.len().min(longest)].to_vec()
}

/// The end of a range of keys that begin so.
pub fn end_of(prefix: &str) -> Vec<u8> {
    let mut end = prefix.as_bytes().to_vec();
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    end
}
