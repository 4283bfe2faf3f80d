//! Whether two processes run on one kernel.

/// The kernel's number of its own start. Nothing, if it does not tell: then nobody is near.
pub fn here() -> Option<[u8; 16]> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let digits = text.bytes().filter_map(|it| char::from(it).to_digit(16));
    let number = digits.fold(0_u128, |all, digit| all << 4 | u128::from(digit));
    (number != 0).then(|| number.to_be_bytes())
}
