//! Finds figures in what programs print.

use serde::de::DeserializeOwned;

/// The number that follows `mark`; white space, `:`, `=` and quotes between them do not count.
pub fn number_after(text: &str, mark: &str) -> Option<f64> {
    let (_, rest) = text.split_once(mark)?;
    let rest = rest.trim_start_matches(|c: char| c.is_whitespace() || ":=\"".contains(c));
    leading_number(rest)
}

/// The same, or an error that says what is missing.
pub fn figure_after(text: &str, mark: &str) -> Result<f64, String> {
    number_after(text, mark).ok_or_else(|| format!("printed no \"{}\"", mark.trim()))
}

/// The figures of the line of JSON that a program of ours prints, among others' remarks.
pub fn json_line<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    let line = text.lines().find(|line| line.starts_with('{'));
    serde_json::from_str(line.unwrap_or_default())
        .map_err(|error| format!("client: printed no figures: {error}"))
}

/// The number that `text` begins with.
pub fn leading_number(text: &str) -> Option<f64> {
    let is_part = |c: char| c.is_ascii_digit() || ".-+eE".contains(c);
    let end = text.find(|c| !is_part(c)).unwrap_or(text.len());
    // "16-core" is 16: a shorter beginning may be the number.
    (1..=end)
        .rev()
        .find_map(|end| text.get(..end)?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_after_marks() {
        assert_eq!(number_after("tps = 31881.147 (x)", "tps"), Some(31881.147));
        assert_eq!(
            number_after("Requests/sec:  63142.63\n", "Requests/sec"),
            Some(63142.63)
        );
        assert_eq!(number_after("a=1 b=2", "c"), None);
        assert_eq!(leading_number("16-core"), Some(16.0));
        assert_eq!(leading_number("1e6/s"), Some(1e6));
        assert_eq!(leading_number("us"), None);
    }
}
