//! Names of services, after TIPC: a program registers a service and an instance for an address, others find it by that name,
//! wherever it lives, and hear when it appears and disappears.
//!
//! On one host nobody serves the names: they are files in the run directory, each locked by its owner. Those of other hosts
//! are written there by the daemon.

mod error;
mod subscription;

use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicUsize, Ordering};

use rendezvous::config::Config;
use rendezvous::names::{Directory, Folder, Held, Interest, Label, Record, Service, Users, Watch};
use rendezvous::rundir::{RunDir, RunDirError};
use rustix::io::Errno;

pub use error::NameError;
pub use rendezvous::names::LONGEST as LONGEST_SERVICE;
pub use subscription::{Event, Subscription};

/// Names that a process can have at once: each takes a descriptor.
pub const MOST_NAMES: usize = 1024;

static REGISTERED: AtomicUsize = AtomicUsize::new(0);

/// Where somebody can be reached who has registered a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub address: SocketAddr,
    pub instance: u32,
    /// The user that has registered it: on this host the kernel's word, of another host that of its daemon.
    pub uid: u32,
    /// As the process sees itself, in its own pid namespace.
    pub pid: u32,
    /// Where the daemon of that host listens; `None`: on this host.
    pub host: Option<IpAddr>,
}

impl Place {
    fn new(record: Record) -> Place {
        Place {
            address: record.reached_at(),
            instance: record.label.instance,
            uid: record.uid,
            pid: record.pid,
            host: record.label.host(),
        }
    }
}

/// The names that this process can see.
#[derive(Clone, Debug)]
pub struct Names {
    directory: Directory,
}

/// A name of ours. It is withdrawn when this is dropped, and when the process ends, however it does.
#[derive(Debug)]
pub struct Registration {
    _held: Held,
    place: Place,
}

impl Names {
    /// Those of this user, of root and of the owner of the run directory, in the run directory of the configuration.
    pub fn open() -> Result<Names, NameError> {
        let config = Config::from_env().map_err(|why| NameError::Configuration(why.to_string()))?;
        let unusable =
            |why: String| NameError::RunDirectory(format!("{}: {why}", config.run_dir.display()));
        let run_dir = RunDir::open(&config.run_dir).map_err(|why| match why {
            RunDirError::Open(errno @ (Errno::MFILE | Errno::NFILE)) => errno.into(),
            why => unusable(why.to_string()),
        })?;
        // What others have left who are gone.
        if let Ok(own) = Folder::own(&run_dir) {
            own.sweep();
        }
        let directory = Directory::open(run_dir, Users::Trusted)?;
        Ok(Names { directory })
    }

    /// Those of all users. Any of them can register any name: look at the `uid` of a [`Place`].
    pub fn of_all_users(&self) -> Names {
        let directory = self.directory.for_users(Users::All);
        Names { directory }
    }

    /// Registers a name for an address, at which the program should listen already. A user's programs have each name once on a
    /// host.
    pub fn register(
        &self,
        service: &str,
        instance: u32,
        address: SocketAddr,
    ) -> Result<Registration, NameError> {
        let label = Label::here(checked(service)?, instance);
        if address.port() == 0 {
            return Err(NameError::NoPort);
        }
        if REGISTERED.fetch_add(1, Ordering::Relaxed) >= MOST_NAMES {
            REGISTERED.fetch_sub(1, Ordering::Relaxed);
            return Err(NameError::TooMany);
        }
        let held = self.directory.register(label, address).inspect_err(|_| {
            REGISTERED.fetch_sub(1, Ordering::Relaxed);
        })?;
        let place = Place {
            address,
            instance,
            uid: rustix::process::geteuid().as_raw(),
            pid: std::process::id(),
            host: None,
        };
        Ok(Registration { _held: held, place })
    }

    /// Where this instance is: on this host if it can be, first of this user's; else on any other host that has it.
    pub fn find(&self, service: &str, instance: u32) -> Result<Place, NameError> {
        any_of(self.directory.find(checked(service)?, instance)?)
    }

    /// Any instance of the service, another one each time: of those on this host if there are any, else of all.
    pub fn find_any(&self, service: &str) -> Result<Place, NameError> {
        let mut all = self.directory.range(checked(service)?, 0..=u32::MAX)?;
        if all.iter().any(|record| record.label.elsewhere.is_none()) {
            all.retain(|record| record.label.elsewhere.is_none());
        }
        any_of(all)
    }

    /// All places of these instances, on all hosts, by instance.
    pub fn range(
        &self,
        service: &str,
        instances: RangeInclusive<u32>,
    ) -> Result<Vec<Place>, NameError> {
        let mut all = self.directory.range(checked(service)?, instances)?;
        all.sort_by_key(|record| (record.label.instance, record.label.host()));
        Ok(all.into_iter().map(Place::new).collect())
    }

    /// Tells which of these instances appear and disappear; those that are there now appear first.
    pub fn subscribe(
        &self,
        service: &str,
        instances: RangeInclusive<u32>,
    ) -> Result<Subscription, NameError> {
        let interest = Interest {
            service: Some(checked(service)?),
            instances,
        };
        Ok(Subscription::new(Watch::new(
            self.directory.clone(),
            interest,
        )?))
    }
}

fn checked(service: &str) -> Result<Service, NameError> {
    Service::new(service).ok_or(NameError::BadName)
}

fn any_of(found: Vec<Record>) -> Result<Place, NameError> {
    let chance = os::random()? as usize;
    let chosen = chance.checked_rem(found.len()).map(|chosen| found[chosen]);
    chosen.map(Place::new).ok_or(NameError::NotFound)
}

impl Registration {
    pub fn place(&self) -> Place {
        self.place
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        REGISTERED.fetch_sub(1, Ordering::Relaxed);
    }
}
