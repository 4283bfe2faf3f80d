//! Arguments of the test programs: an optional role word first, then `key=value` words.

use std::collections::HashMap;
use std::fmt::Debug;
use std::str::FromStr;

/// The command line of a test program.
pub struct Args {
    role: String,
    values: HashMap<String, String>,
}

impl Args {
    /// Reads the process's own command line; panics with a clear message on a word it cannot read.
    pub fn from_env() -> Self {
        Self::parse(std::env::args().skip(1))
    }

    fn parse(words: impl Iterator<Item = String>) -> Self {
        let mut args = Self {
            role: String::new(),
            values: HashMap::new(),
        };
        for word in words {
            match word.split_once('=') {
                Some((key, value)) => {
                    args.values.insert(key.to_owned(), value.to_owned());
                }
                None => args.role = word,
            }
        }
        args
    }

    /// The word without `=`, or nothing.
    pub fn role(&self) -> &str {
        &self.role
    }

    /// The value of `key`, which must be there.
    pub fn get<T: FromStr<Err: Debug>>(&self, key: &str) -> T {
        self.find(key)
            .unwrap_or_else(|| panic!("argument {key}=VALUE is missing"))
    }

    /// The value of `key`, or `default`.
    pub fn get_or<T: FromStr<Err: Debug>>(&self, key: &str, default: T) -> T {
        self.find(key).unwrap_or(default)
    }

    /// `host=` (default 127.0.0.1) and `port=`.
    pub fn address(&self) -> (String, u16) {
        (
            self.get_or("host", "127.0.0.1".to_owned()),
            self.get("port"),
        )
    }

    /// The value of `key`, if it is there.
    pub fn find<T: FromStr<Err: Debug>>(&self, key: &str) -> Option<T> {
        let value = self.values.get(key)?;
        Some(
            value
                .parse()
                .unwrap_or_else(|error| panic!("argument {key}={value}: {error:?}")),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::Args;

    #[test]
    fn role_and_values() {
        let words = ["listen", "port=7", "host=::1"].map(String::from);
        let args = Args::parse(words.into_iter());
        assert_eq!(args.role(), "listen");
        assert_eq!(args.address(), ("::1".to_owned(), 7));
        assert_eq!(args.get_or("rounds", 5), 5);
    }
}
