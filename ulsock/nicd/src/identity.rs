//! Who this host is to its peers: a key pair of X25519. The private half lies in a file that only nicd
//! can read; the public half stands in the peers file of every host. `ulsock nicd key` makes it.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use snow::params::DHChoice;
use snow::resolvers::{CryptoResolver, DefaultResolver};

use super::key::{self, BYTES, BadKey, PublicKey};
use super::trusted::{self, Readers, Untrusted};

pub const KEY_FILE: &str = "/etc/ulsock/nicd.key";

/// The word in front of the key in its file: nobody takes that line for one of the peers file.
const PRIVATE: &str = "private";

pub struct Identity {
    private: [u8; BYTES],
    public: PublicKey,
}

/// Why a key file cannot be used.
#[derive(Debug)]
pub enum BadFile {
    Untrusted(Untrusted),
    /// Not exactly one line `private KEY` besides comments.
    Format,
    Key(BadKey),
}

impl Identity {
    pub fn generate() -> io::Result<Identity> {
        let mut private = [0; BYTES];
        let mut random = DefaultResolver
            .resolve_rng()
            .expect("snow has a source of randomness");
        random
            .try_fill_bytes(&mut private)
            .map_err(|_| io::Error::other("the kernel gives no random bytes"))?;
        Ok(Identity::from_private(private))
    }

    fn from_private(private: [u8; BYTES]) -> Identity {
        let mut pair = DefaultResolver
            .resolve_dh(&DHChoice::Curve25519)
            .expect("snow is built with X25519");
        pair.set(&private);
        let public = pair
            .pubkey()
            .try_into()
            .expect("an X25519 key has 32 bytes");
        Identity {
            private,
            public: PublicKey::new(public),
        }
    }

    pub fn load(path: &Path) -> Result<Identity, BadFile> {
        let text = trusted::read(path, Readers::Few).map_err(BadFile::Untrusted)?;
        Identity::parse(&text)
    }

    fn parse(text: &str) -> Result<Identity, BadFile> {
        let mut lines = text
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty() && !line.starts_with('#'));
        let (Some(line), None) = (lines.next(), lines.next()) else {
            return Err(BadFile::Format);
        };
        match line.split_whitespace().collect::<Vec<_>>()[..] {
            [PRIVATE, key] => key::decode(key)
                .map(Identity::from_private)
                .map_err(BadFile::Key),
            _ => Err(BadFile::Format),
        }
    }

    /// Writes a new file; one that is there already is left alone. It appears whole or not at all.
    pub fn store(&self, path: &Path) -> io::Result<()> {
        let folder = path
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty());
        if let Some(folder) = folder {
            make_folder(folder)?;
        }
        let unfinished = beside(path);
        let written = self
            .write(&unfinished)
            .and_then(|()| fs::hard_link(&unfinished, path));
        let removed = fs::remove_file(&unfinished);
        written.and(removed)
    }

    fn write(&self, path: &Path) -> io::Result<()> {
        let mut file = File::options()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)?;
        let private = key::encode(&self.private);
        write!(
            file,
            "# The private key of this host's nicd. Its public key is {}\n{PRIVATE} {private}\n",
            self.public
        )?;
        file.sync_all()
    }

    pub fn public(&self) -> PublicKey {
        self.public
    }

    pub(super) fn private(&self) -> &[u8; BYTES] {
        &self.private
    }
}

fn make_folder(folder: &Path) -> io::Result<()> {
    match fs::DirBuilder::new().mode(0o755).create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}", std::process::id()));
    PathBuf::from(name)
}

/// The private key is nobody's to see, in a log neither.
impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity({})", self.public)
    }
}

impl fmt::Display for BadFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadFile::Untrusted(why) => why.fmt(f),
            BadFile::Format => write!(
                f,
                "is no key file: one line `{PRIVATE} KEY` is wanted, as `ulsock nicd key` writes it"
            ),
            BadFile::Key(why) => write!(f, "holds no key: {why}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    /// RFC 7748, section 6.1: Alice's pair.
    #[test]
    fn the_public_key_follows_from_the_private_one() {
        let identity =
            Identity::parse("private dwdtCnMYpX08FsFyUbJmRd9ML4frwJkqsXf7pR25LCo=").unwrap();
        assert_eq!(
            identity.public().to_string(),
            "hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo="
        );
    }

    #[test]
    fn a_stored_key_is_loaded_again_and_only_its_owner_reads_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("etc").join("nicd.key");
        let identity = Identity::generate().unwrap();
        identity.store(&path).unwrap();
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o7777,
            0o600
        );
        assert_eq!(Identity::load(&path).unwrap().private, identity.private);
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn a_key_is_never_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("nicd.key");
        let first = Identity::generate().unwrap();
        first.store(&path).unwrap();
        let error = Identity::generate().unwrap().store(&path).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(Identity::load(&path).unwrap().public(), first.public());
    }

    #[test]
    fn what_is_no_key_file_is_refused() {
        let key = "dwdtCnMYpX08FsFyUbJmRd9ML4frwJkqsXf7pR25LCo=";
        for text in [
            "",
            "# nothing",
            key,
            &format!("public {key}"),
            &format!("private {key}\nprivate {key}"),
            &format!("private {key} {key}"),
        ] {
            assert!(
                matches!(Identity::parse(text), Err(BadFile::Format)),
                "{text}"
            );
        }
        assert!(matches!(
            Identity::parse("private AQID"),
            Err(BadFile::Key(BadKey::Length))
        ));
    }

    #[test]
    fn the_private_key_shows_nowhere() {
        let identity = Identity::generate().unwrap();
        assert!(!format!("{identity:?}").contains(&key::encode(&identity.private)));
    }
}
