//! Patterns for names of programs: `*` stands for any characters, `?` for one. Nothing else is special.

/// Does the whole name match? Takes at most as many steps as the product of the two lengths.
pub fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut p, mut n) = (0, 0);
    // Behind the last `*`, and where in the name it was tried last.
    let mut retry: Option<(usize, usize)> = None;
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                retry = Some((p + 1, n));
                p += 1;
            }
            Some(c) if *c == b'?' || *c == name[n] => {
                p += 1;
                n += 1;
            }
            _ => match retry {
                Some((behind, at)) => {
                    retry = Some((behind, at + 1));
                    (p, n) = (behind, at + 1);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == b'*')
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn names_match() {
        for (pattern, name, expected) in [
            ("redis-server", "redis-server", true),
            ("redis-server", "redis-serve", false),
            ("redis-*", "redis-server", true),
            ("*", "", true),
            ("", "", true),
            ("", "x", false),
            ("python3.??", "python3.11", true),
            ("python3.??", "python3.9", false),
            ("/usr/*/*nginx", "/usr/local/sbin/nginx", true),
            ("a*b*c", "aXbXbc", true),
            ("a*b*c", "aXbXb", false),
            ("[ab]", "a", false),
            ("**", "x", true),
        ] {
            let found = matches(pattern.as_bytes(), name.as_bytes());
            assert_eq!(found, expected, "{pattern} {name}");
        }
    }

    /// Patterns that keep others busy for ever.
    #[test]
    fn many_stars_are_no_trouble() {
        let pattern = "*a".repeat(2000);
        let name = "a".repeat(1999) + "b";
        assert!(!matches(pattern.as_bytes(), name.as_bytes()));
    }
}
