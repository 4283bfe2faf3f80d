//! CRC32C by tables, eight bytes at a time; and the tables by which lanes are joined.

/// Castagnoli's polynomial, bits reflected.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// `TABLES[n][byte]`: what a byte does to the checksum when n more follow it.
static TABLES: [[u32; 256]; 8] = tables();

const fn tables() -> [[u32; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut index = 0;
    while index < 8 * 256 {
        let (n, byte) = (index / 256, index % 256);
        tables[n][byte] = after_bits(byte as u32, 8 * (n + 1));
        index += 1;
    }
    tables
}

/// What becomes of a checksum when so many zero bits follow.
const fn after_bits(mut crc: u32, mut bits: usize) -> u32 {
    while bits > 0 {
        crc = crc >> 1 ^ if crc & 1 != 0 { POLYNOMIAL } else { 0 };
        bits -= 1;
    }
    crc
}

pub fn add(mut crc: u32, bytes: &[u8]) -> u32 {
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        let [a, b, c, d, e, f, g, h] = (u64::from_le_bytes(*word) ^ u64::from(crc)).to_le_bytes();
        crc = TABLES[7][a as usize]
            ^ TABLES[6][b as usize]
            ^ TABLES[5][c as usize]
            ^ TABLES[4][d as usize]
            ^ TABLES[3][e as usize]
            ^ TABLES[2][f as usize]
            ^ TABLES[1][g as usize]
            ^ TABLES[0][h as usize];
    }
    rest.iter().fold(crc, |crc, byte| {
        TABLES[0][usize::from(crc as u8 ^ byte)] ^ crc >> 8
    })
}

/// Moves a checksum past a fixed number of zero bytes.
pub struct Shift([[u32; 256]; 4]);

impl Shift {
    pub const fn past(zeros: usize) -> Shift {
        // The effect is linear: that of each bit by itself, then of each byte by its bits.
        let mut bits = [0; 32];
        let mut bit = 0;
        while bit < 32 {
            bits[bit] = after_bits(1 << bit, zeros * 8);
            bit += 1;
        }
        let mut tables = [[0; 256]; 4];
        let mut index = 0;
        while index < 4 * 256 {
            let (byte, value) = (index / 256, index % 256);
            let mut bit = 0;
            while bit < 8 {
                if value >> bit & 1 != 0 {
                    tables[byte][value] ^= bits[byte * 8 + bit];
                }
                bit += 1;
            }
            index += 1;
        }
        Shift(tables)
    }

    #[inline]
    pub fn apply(&self, crc: u32) -> u32 {
        let [a, b, c, d] = crc.to_le_bytes();
        self.0[0][a as usize]
            ^ self.0[1][b as usize]
            ^ self.0[2][c as usize]
            ^ self.0[3][d as usize]
    }
}
