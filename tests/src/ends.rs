//! Which ends of a connection run under ulsock.

/// One end of a client-server test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The program that listens.
    Server,
    /// The program that connects.
    Client,
}

/// Which sides are started with the preload library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// None: plain kernel TCP.
    Kernel,
    /// Both: the bytes must go through rings.
    Both,
    /// Only the server: everything must work as on kernel TCP.
    Server,
    /// Only the client: the same.
    Client,
}

/// `TESTS_CARRIER=none` runs every test on plain kernel TCP: it tells whether the test or the
/// product is wrong.
pub fn kernel_only() -> bool {
    std::env::var("TESTS_CARRIER").is_ok_and(|carrier| carrier == "none")
}

impl Ends {
    /// What a test of a real program goes through.
    pub fn all() -> &'static [Self] {
        if kernel_only() {
            &[Self::Kernel]
        } else {
            &[Self::Both, Self::Server, Self::Client]
        }
    }

    /// Both ends under ulsock, unless the whole run is on kernel TCP.
    pub fn both() -> Self {
        if kernel_only() {
            Self::Kernel
        } else {
            Self::Both
        }
    }

    /// Whether `side` is under ulsock.
    pub fn covers(self, side: Side) -> bool {
        match self {
            Self::Kernel => false,
            Self::Both => true,
            Self::Server => side == Side::Server,
            Self::Client => side == Side::Client,
        }
    }
}
