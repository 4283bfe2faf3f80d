//! A host's public key: 32 bytes of X25519, in text base64 as WireGuard writes its keys. It is the name
//! by which a host is known to its peers, in the peers file and on the channel between two nicds.

use std::fmt;

use base64ct::{Base64, Encoding};

pub const BYTES: usize = 32;

#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PublicKey([u8; BYTES]);

/// Why a text is no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadKey {
    NotBase64,
    Length,
    /// It multiplies to nothing: whoever knows no secret at all has this key.
    Zero,
}

impl PublicKey {
    pub fn new(bytes: [u8; BYTES]) -> PublicKey {
        PublicKey(bytes)
    }

    pub fn parse(text: &str) -> Result<PublicKey, BadKey> {
        match decode(text)? {
            bytes if bytes == [0; BYTES] => Err(BadKey::Zero),
            bytes => Ok(PublicKey(bytes)),
        }
    }
}

/// The bytes of a key, public or private. In constant time, for the sake of the private one.
pub(super) fn decode(text: &str) -> Result<[u8; BYTES], BadKey> {
    let mut space = [0; BYTES + 1];
    match Base64::decode(text, &mut space) {
        Ok(bytes) => bytes.try_into().map_err(|_| BadKey::Length),
        Err(base64ct::Error::InvalidLength) => Err(BadKey::Length),
        Err(base64ct::Error::InvalidEncoding) => Err(BadKey::NotBase64),
    }
}

pub(super) fn encode(key: &[u8; BYTES]) -> String {
    Base64::encode_string(key)
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&encode(&self.0))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for BadKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BadKey::NotBase64 => "not base64",
            BadKey::Length => "a key has 32 bytes, 44 characters in base64",
            BadKey::Zero => "a key of zeros is nobody's",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_44_characters_and_nothing_else() {
        let text = "AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA=";
        assert_eq!(PublicKey::parse(text).unwrap().to_string(), text);
        for (bad, why) in [
            ("", BadKey::Length),
            ("AQID", BadKey::Length),
            (&text[..43], BadKey::NotBase64),
            (&text.replace('A', "*"), BadKey::NotBase64),
            // The last character has bits that belong to no byte.
            (&text.replace("A=", "B="), BadKey::NotBase64),
            (&"A".repeat(44), BadKey::Length),
            (&"A".repeat(4000), BadKey::Length),
            ("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", BadKey::Zero),
        ] {
            assert_eq!(PublicKey::parse(bad), Err(why), "{bad}");
        }
    }
}
