//! Reads recordings. The programs can have written anything into them, may have been killed in the middle of a word, and may
//! still be writing: what makes no sense is left out and counted, and nothing is believed that would cost memory or time.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use os::plain::plain;

use crate::call::Call;
use crate::entry::{Called, Entry};
use crate::layout::{CHUNK, ENTRIES, ENTRY, HEADER, MAGIC, MOST_CHUNKS, PROGRAM, WORDS, size};

/// One program, from its start until it ended or started another, with all processes that it has forked.
#[derive(Debug, Default)]
pub struct Recording {
    /// Of the process that was started.
    pub pid: u32,
    /// Its file, printable.
    pub program: String,
    /// Whether libulsock_preload.so was there.
    pub attached: bool,
    /// Nanoseconds of the monotonic clock, and of the calendar.
    pub began: u64,
    pub began_realtime: u64,
    /// What found no room, and since when.
    pub dropped: u64,
    pub full_at: u64,
    /// What was not understood.
    pub broken: u64,
    pub threads: Vec<Thread>,
}

#[derive(Debug, Default)]
pub struct Thread {
    pub pid: u32,
    pub tid: u32,
    /// Printable.
    pub name: String,
    /// In the order of their ends.
    pub entries: Vec<Entry>,
    /// The call that it is in.
    pub under_way: Option<UnderWay>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnderWay {
    pub call: Call,
    pub fd: i32,
    pub since: u64,
}

/// All in a folder, those first that began first, and how many files were no recordings.
pub fn folder(path: &Path) -> io::Result<(Vec<Recording>, usize)> {
    let (mut found, mut others) = (Vec::new(), 0);
    for entry in std::fs::read_dir(path)? {
        let entry = entry?;
        // Not a pipe that nobody writes to, nor a link to somewhere else.
        let read = match entry.file_type()?.is_file() {
            true => file(&File::open(entry.path())?)?,
            false => None,
        };
        match read {
            Some(recording) => found.push(recording),
            None => others += 1,
        }
    }
    found.sort_by_key(|it: &Recording| (it.began, it.pid));
    Ok((found, others))
}

/// `None`: it is none.
pub fn file(file: &File) -> io::Result<Option<Recording>> {
    let length = file.metadata()?.len();
    let mut header = vec![0; HEADER];
    if length < HEADER as u64 {
        return Ok(None);
    }
    file.read_exact_at(&mut header, 0)?;
    let Some((mut recording, given)) = read_header(&header) else {
        return Ok(None);
    };
    let mut threads = BTreeMap::new();
    let mut chunk = vec![0; CHUNK];
    for number in 0..given {
        let at = size(number) as u64;
        if at + CHUNK as u64 > length {
            recording.broken += 1;
            break;
        }
        file.read_exact_at(&mut chunk, at)?;
        read_chunk(&chunk, &mut recording, &mut threads);
    }
    recording.threads = threads.into_values().collect();
    Ok(Some(recording))
}

fn word(bytes: &[u8], at: usize) -> u64 {
    let bytes = bytes.get(at..at + 8).and_then(|it| it.try_into().ok());
    u64::from_le_bytes(bytes.unwrap_or_default())
}

fn half(bytes: &[u8], at: usize) -> u32 {
    let bytes = bytes.get(at..at + 4).and_then(|it| it.try_into().ok());
    u32::from_le_bytes(bytes.unwrap_or_default())
}

/// Text up to the first zero.
fn text(bytes: &[u8]) -> String {
    plain(bytes.split(|byte| *byte == 0).next().unwrap_or_default())
}

/// And how many chunks to look at.
fn read_header(bytes: &[u8]) -> Option<(Recording, u32)> {
    use crate::layout::Header as At;
    use std::mem::offset_of;
    if word(bytes, offset_of!(At, magic)) != MAGIC {
        return None;
    }
    let program = offset_of!(At, program);
    let recording = Recording {
        pid: half(bytes, offset_of!(At, pid)),
        program: text(&bytes[program..program + PROGRAM]),
        attached: half(bytes, offset_of!(At, attached)) != 0,
        began: word(bytes, offset_of!(At, began)),
        began_realtime: word(bytes, offset_of!(At, began_realtime)),
        dropped: word(bytes, offset_of!(At, dropped)),
        full_at: word(bytes, offset_of!(At, full_at)),
        ..Recording::default()
    };
    let [chunks, given] = [offset_of!(At, chunks), offset_of!(At, given)];
    let given = half(bytes, given).min(half(bytes, chunks));
    Some((recording, given.min(MOST_CHUNKS)))
}

fn read_chunk(bytes: &[u8], recording: &mut Recording, threads: &mut BTreeMap<(u32, u32), Thread>) {
    use crate::layout::Head as At;
    use std::mem::offset_of;
    let [pid, tid] = [offset_of!(At, pid), offset_of!(At, tid)].map(|at| half(bytes, at));
    let used = half(bytes, offset_of!(At, used)) as usize;
    if tid == 0 {
        // Given to a thread that did not come to it.
        recording.broken += u64::from(used != 0);
        return;
    }
    let name = offset_of!(At, name);
    let thread = threads.entry((pid, tid)).or_insert_with(|| Thread {
        pid,
        tid,
        ..Thread::default()
    });
    thread.name = text(&bytes[name..name + 16]);
    thread.under_way = under_way(bytes).filter(|it| is_of_run(it.since, recording));
    for place in bytes[ENTRY..].chunks_exact(ENTRY).take(used.min(ENTRIES)) {
        let words: [u64; WORDS] = std::array::from_fn(|at| word(place, at * 8));
        match Entry::from_words(&words).filter(|it| is_sane(it, recording)) {
            Some(entry) => thread.entries.push(entry),
            None => recording.broken += 1,
        }
    }
}

fn under_way(bytes: &[u8]) -> Option<UnderWay> {
    use crate::layout::Head as At;
    use std::mem::offset_of;
    let number = half(bytes, offset_of!(At, under_way)).checked_sub(1)?;
    Some(UnderWay {
        call: Call::from_number(u8::try_from(number).ok()?)?,
        fd: half(bytes, offset_of!(At, fd)) as i32,
        since: word(bytes, offset_of!(At, since)),
    })
}

/// No run takes longer.
const LONGEST: u64 = 1 << 53;

fn is_of_run(time: u64, recording: &Recording) -> bool {
    let since = time.checked_sub(recording.began);
    since.is_some_and(|it| it < LONGEST)
}

/// Whether its times are of this run.
fn is_sane(entry: &Entry, recording: &Recording) -> bool {
    let within = |time: u64| is_of_run(time, recording);
    match entry {
        Entry::Called(Called { start, end, .. }) | Entry::Phase { start, end, .. } => {
            within(*start) && within(*end)
        }
        Entry::Happened(moment) => within(moment.time),
        Entry::Ends { .. } => true,
    }
}

#[cfg(test)]
mod tests;
