//! What a name is called: the service, the instance, and for one of another host that host and its user there. It is also
//! the name of its file.

use std::fmt;
use std::net::IpAddr;

/// The most bytes of a service.
pub const LONGEST: usize = 64;

/// The name of a service: letters, digits, `-`, `_` and `.`, of which the first is a letter or a digit.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Service {
    /// Zeros behind the name.
    bytes: [u8; LONGEST],
}

impl Service {
    /// `None`: it is empty, too long, or has other characters.
    pub fn new(text: &str) -> Option<Service> {
        let is_good = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
        let starts = text.as_bytes().first()?.is_ascii_alphanumeric();
        let mut bytes = [0; LONGEST];
        bytes
            .get_mut(..text.len())?
            .copy_from_slice(text.as_bytes());
        (starts && text.as_bytes().iter().all(is_good)).then_some(Service { bytes })
    }

    pub fn bytes(&self) -> [u8; LONGEST] {
        self.bytes
    }

    /// As [`Service::bytes`] gives them.
    pub fn from_bytes(bytes: &[u8; LONGEST]) -> Option<Service> {
        let len = bytes.iter().position(|byte| *byte == 0).unwrap_or(LONGEST);
        let service = Service::new(std::str::from_utf8(&bytes[..len]).ok()?)?;
        (service.bytes == *bytes).then_some(service)
    }

    pub fn as_str(&self) -> &str {
        let len = self.bytes.iter().position(|byte| *byte == 0);
        // All characters are ASCII.
        std::str::from_utf8(&self.bytes[..len.unwrap_or(LONGEST)]).unwrap_or_default()
    }
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

/// Whose name it is on another host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Elsewhere {
    /// Where the daemon of that host listens.
    pub host: IpAddr,
    /// As that daemon says.
    pub uid: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Label {
    pub service: Service,
    pub instance: u32,
    /// `None`: of this host.
    pub elsewhere: Option<Elsewhere>,
}

impl Label {
    pub fn here(service: Service, instance: u32) -> Label {
        Label {
            service,
            instance,
            elsewhere: None,
        }
    }

    /// Where the daemon of another host listens; `None`: of this one.
    pub fn host(&self) -> Option<IpAddr> {
        self.elsewhere.map(|it| it.host)
    }

    /// From a file name, if it is exactly that of a label.
    pub fn parse(text: &str) -> Option<Label> {
        let parts: Vec<&str> = text.splitn(5, '@').collect();
        let (service, instance, elsewhere) = match parts[..] {
            [service, instance] => (service, instance, None),
            [service, instance, host, uid] => (service, instance, Some((host, uid))),
            _ => return None,
        };
        let elsewhere = match elsewhere {
            Some((host, uid)) => Some(Elsewhere {
                host: host.parse().ok()?,
                uid: uid.parse().ok()?,
            }),
            None => None,
        };
        let label = Label {
            service: Service::new(service)?,
            instance: instance.parse().ok()?,
            elsewhere,
        };
        (label.to_string() == text).then_some(label)
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.service.as_str(), self.instance)?;
        match self.elsewhere {
            Some(Elsewhere { host, uid }) => write!(f, "@{host}@{uid}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_a_service_can_be_called() {
        for good in ["a", "db", "7", "my-db_2.x", &"x".repeat(LONGEST)] {
            let service = Service::new(good).expect(good);
            assert_eq!(service.as_str(), good);
            assert_eq!(Service::from_bytes(&service.bytes()), Some(service));
        }
        for bad in [
            "",
            ".",
            "..",
            "-a",
            "a/b",
            "a b",
            "a@b",
            "\u{e4}",
            "a\0",
            &"x".repeat(LONGEST + 1),
        ] {
            assert_eq!(Service::new(bad), None, "{bad:?}");
        }
        let mut hidden = Service::new("db").unwrap().bytes();
        hidden[5] = b'x';
        assert_eq!(Service::from_bytes(&hidden), None);
    }

    #[test]
    fn one_label_has_one_file() {
        for good in ["db@0", "db@4294967295", "db@1@10.0.0.1@0", "db@1@fd00::1@7"] {
            assert_eq!(Label::parse(good).expect(good).to_string(), good);
        }
        for bad in [
            "db",
            "db@",
            "@1",
            "db@01",
            "db@+1",
            "db@-1",
            "db@4294967296",
            "db@1@",
            "db@1@10.0.0.1",
            "db@1@fd00::0001@0",
            "db@1@10.0.0.1@00",
            "db@1@10.0.0.1@",
            "db@1@10.0.0.1@0@",
            "new.1.00",
        ] {
            assert_eq!(Label::parse(bad), None, "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn any_text(text in "\\PC{0,100}") {
            if let Some(label) = Label::parse(&text) {
                prop_assert_eq!(label.to_string(), text);
            }
        }

        #[test]
        fn there_and_back(service in "[A-Za-z0-9][A-Za-z0-9._-]{0,63}", instance: u32, at: Option<(IpAddr, u32)>) {
            let elsewhere = at.map(|(host, uid)| Elsewhere { host, uid });
            let label = Label { service: Service::new(&service).unwrap(), instance, elsewhere };
            prop_assert_eq!(Label::parse(&label.to_string()), Some(label));
        }
    }
}
