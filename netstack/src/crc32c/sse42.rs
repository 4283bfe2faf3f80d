//! CRC32C by the instruction of SSE 4.2.

use core::arch::x86_64::{__cpuid, _mm_crc32_u8, _mm_crc32_u32, _mm_crc32_u64};
use core::sync::atomic::{AtomicU8, Ordering};

use super::table::Shift;

/// Bytes of a lane. Three of them are some 400 bytes: a packet of 1,400 has three blocks.
const LANE: usize = 128;
const WORDS: usize = LANE / 8;

/// Fewer bytes fill no lanes.
const SHORT: usize = 3 * LANE;

static PAST_ONE_LANE: Shift = Shift::past(LANE);
static PAST_TWO_LANES: Shift = Shift::past(2 * LANE);

/// Proof that this CPU has the instruction.
#[derive(Clone, Copy)]
pub struct Sse42(());

impl Sse42 {
    /// `None`: the CPU has not got it.
    #[inline]
    pub fn of_this_cpu() -> Option<Sse42> {
        is_there().then_some(Sse42(()))
    }

    #[inline]
    pub fn add(self, crc: u32, bytes: &[u8]) -> u32 {
        // SAFETY: a `Sse42` exists only on a CPU with SSE 4.2.
        unsafe {
            match bytes.len() {
                ..SHORT => tail(crc, bytes),
                _ => run(crc, bytes, &mut Nowhere),
            }
        }
    }

    #[inline]
    pub fn add_words<const N: usize>(self, crc: u32, words: [u64; N]) -> u32 {
        // SAFETY: a `Sse42` exists only on a CPU with SSE 4.2.
        unsafe { run_words(crc, words) }
    }

    #[inline]
    pub fn copy(self, crc: u32, from: &[u8], to: &mut [u8]) -> u32 {
        assert_eq!(from.len(), to.len());
        // SAFETY: a `Sse42` exists only on a CPU with SSE 4.2.
        unsafe { run(crc, from, &mut Into(to)) }
    }
}

/// Asked once.
#[inline]
fn is_there() -> bool {
    const UNKNOWN: u8 = 0;
    const YES: u8 = 1;
    const NO: u8 = 2;
    static ANSWER: AtomicU8 = AtomicU8::new(UNKNOWN);
    match ANSWER.load(Ordering::Relaxed) {
        UNKNOWN => {
            // Leaf 1, ecx bit 20 (Intel SDM, CPUID).
            let yes = __cpuid(1).ecx & 1 << 20 != 0;
            ANSWER.store(if yes { YES } else { NO }, Ordering::Relaxed);
            yes
        }
        answer => answer == YES,
    }
}

/// Where the bytes go meanwhile.
trait CopyTarget {
    fn block(&mut self, block: &[u8; 3 * LANE]);
    fn rest(&mut self, bytes: &[u8]);
}

struct Nowhere;

impl CopyTarget for Nowhere {
    #[inline(always)]
    fn block(&mut self, _: &[u8; 3 * LANE]) {}
    #[inline(always)]
    fn rest(&mut self, _: &[u8]) {}
}

/// What is left to be filled.
struct Into<'a>(&'a mut [u8]);

impl CopyTarget for Into<'_> {
    #[inline(always)]
    fn block(&mut self, block: &[u8; 3 * LANE]) {
        let room = core::mem::take(&mut self.0);
        let (to, room) = room.split_at_mut(block.len());
        to.copy_from_slice(block);
        self.0 = room;
    }
    #[inline(always)]
    fn rest(&mut self, bytes: &[u8]) {
        self.0.copy_from_slice(bytes);
    }
}

#[target_feature(enable = "sse4.2")]
fn run(crc: u32, bytes: &[u8], sink: &mut impl CopyTarget) -> u32 {
    let (blocks, rest) = bytes.as_chunks::<{ 3 * LANE }>();
    let mut crc = crc;
    for block in blocks {
        // First the copy: the lanes then read what is in the nearest cache.
        sink.block(block);
        crc = lanes(crc, block);
    }
    sink.rest(rest);
    tail(crc, rest)
}

/// What does not fill lanes: eight words at a time, then by the word, half a word, and the byte.
#[target_feature(enable = "sse4.2")]
fn tail(mut crc: u32, bytes: &[u8]) -> u32 {
    let (words, rest) = bytes.as_chunks::<8>();
    let (eights, words) = words.as_chunks::<8>();
    for eight in eights {
        crc = run_words(crc, eight.map(u64::from_le_bytes));
    }
    for word in words {
        crc = run_words(crc, [u64::from_le_bytes(*word)]);
    }
    let (halves, rest) = rest.as_chunks::<4>();
    for half in halves {
        crc = _mm_crc32_u32(crc, u32::from_le_bytes(*half));
    }
    for byte in rest {
        crc = _mm_crc32_u8(crc, *byte);
    }
    crc
}

#[target_feature(enable = "sse4.2")]
#[inline]
fn run_words<const N: usize>(crc: u32, words: [u64; N]) -> u32 {
    let add = |crc, word| _mm_crc32_u64(crc, word);
    words.into_iter().fold(u64::from(crc), add) as u32
}

#[target_feature(enable = "sse4.2")]
#[inline]
fn lanes(crc: u32, block: &[u8; 3 * LANE]) -> u32 {
    let (words, _) = block.as_chunks::<8>();
    let word = |index: usize| u64::from_le_bytes(words[index]);
    let (mut a, mut b, mut c) = (u64::from(crc), 0, 0);
    for index in 0..WORDS {
        a = _mm_crc32_u64(a, word(index));
        b = _mm_crc32_u64(b, word(WORDS + index));
        c = _mm_crc32_u64(c, word(2 * WORDS + index));
    }
    PAST_TWO_LANES.apply(a as u32) ^ PAST_ONE_LANE.apply(b as u32) ^ c as u32
}
