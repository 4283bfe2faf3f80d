//! Times as text, in UTC.

use std::time::{SystemTime, UNIX_EPOCH};

/// As RFC 3339 has it, with microseconds.
pub fn text(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (days, second) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    let [year, month, day] = date(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let micros = since.subsec_micros();
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z")
}

/// Of the day so many days after 1 January 1970. Years begin in March here, so that leap days are last.
fn date(days: u64) -> [u64; 3] {
    const OF_400_YEARS: u64 = 146_097;
    let days = days + 719_468;
    let (era, day) = (days / OF_400_YEARS, days % OF_400_YEARS);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next) = match month {
        0..10 => (month + 3, 0),
        _ => (month - 9, 1),
    };
    [era * 400 + year + next, month, day]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn as_the_calendar_has_it() {
        let cases = [
            (0, "1970-01-01T00:00:00.000000Z"),
            (951_782_400, "2000-02-29T00:00:00.000000Z"),
            (1_709_251_199, "2024-02-29T23:59:59.000000Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000000Z"),
        ];
        for (seconds, expected) in cases {
            assert_eq!(text(UNIX_EPOCH + Duration::from_secs(seconds)), expected);
        }
    }
}
