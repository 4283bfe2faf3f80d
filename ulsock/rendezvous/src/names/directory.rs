//! All names that a process can see: whose folders count, which of their records are believed, and what comes first.
//!
//! A user can register whatever name it likes in its own folder. So a name says nothing about whose it is: by default a process
//! believes its own user, root and the owner of the run directory, as it does with the daemon.

use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::os::fd::AsFd;
use std::sync::Arc;

use os::tcp::netns_cookie;
use os::users::names_one_user;
use rustix::io;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use rustix::process::geteuid;

use super::folder::{Folder, Held, NotPublished, is_lack};
use super::label::{Label, Service};
use super::record::Record;
use crate::rundir::{RunDir, may_be_daemon};
use os::fds::Transient;

/// Folders of other users that are looked at: each user has one.
const MOST_USERS: usize = 64;

/// Whose names count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Users {
    /// Our own, root's, and those of the owner of the run directory.
    Trusted,
    /// Everybody's, behind those.
    All,
}

#[derive(Clone, Debug)]
pub struct Directory {
    run_dir: Arc<RunDir>,
    users: Users,
    owner: u32,
    namespace: u64,
}

impl Directory {
    pub fn open(run_dir: RunDir, users: Users) -> io::Result<Directory> {
        Ok(Directory {
            owner: run_dir.owner()?,
            namespace: namespace()?,
            run_dir: Arc::new(run_dir),
            users,
        })
    }

    /// The same, but for these users.
    pub fn for_users(&self, users: Users) -> Directory {
        Directory {
            run_dir: self.run_dir.clone(),
            users,
            ..*self
        }
    }

    pub fn run_dir(&self) -> &RunDir {
        &self.run_dir
    }

    /// Registers a name of this host.
    pub fn register(&self, label: Label, address: SocketAddr) -> Result<Held, NotPublished> {
        self.publish(label, address, geteuid().as_raw(), std::process::id())
    }

    /// Registers any name: who is asked believes it according to who we are.
    pub fn publish(
        &self,
        label: Label,
        address: SocketAddr,
        uid: u32,
        pid: u32,
    ) -> Result<Held, NotPublished> {
        let record = Record {
            label,
            address,
            uid,
            pid,
            namespace: self.namespace,
            nonce: os::random()?,
        };
        Folder::publish(&self.run_dir, &record)
    }

    /// Whose folders are always looked at, in this order.
    pub fn trusted(&self) -> Vec<u32> {
        let mut trusted = vec![geteuid().as_raw()];
        for uid in [0, self.owner] {
            if !trusted.contains(&uid) && names_one_user(uid) {
                trusted.push(uid);
            }
        }
        trusted
    }

    /// All whose folders are looked at, whether they have one or not.
    pub fn uids(&self) -> Vec<u32> {
        let mut uids = self.trusted();
        if self.users == Users::All {
            let most = uids.len() + MOST_USERS;
            self.run_dir.each_name(|name| {
                let uid = Folder::user(name).filter(|uid| names_one_user(*uid));
                uids.extend(uid.filter(|uid| uids.len() < most && !uids.contains(uid)));
            });
        }
        uids
    }

    pub fn sees_all(&self) -> bool {
        self.users == Users::All
    }

    /// Those that there are. An error: nobody can tell now.
    fn folders(&self) -> impl Iterator<Item = io::Result<Folder>> {
        let uids = self.uids().into_iter();
        uids.filter_map(|uid| unless_lack(Folder::of(&self.run_dir, uid)).transpose())
    }

    /// Where this name is: the only place on this host that comes first, or else all on other hosts. An error: nobody can tell now.
    pub fn find(&self, service: Service, instance: u32) -> io::Result<Vec<Record>> {
        let label = Label::here(service, instance);
        for folder in self.folders() {
            if let Some(here) = self.look(&folder?, &label)? {
                return Ok(vec![here]);
            }
        }
        self.range(service, instance..=instance)
    }

    /// All places of these instances, in the order of their users. An error: nobody can tell now.
    pub fn range(
        &self,
        service: Service,
        instances: RangeInclusive<u32>,
    ) -> io::Result<Vec<Record>> {
        let is_wanted =
            |label: &Label| label.service == service && instances.contains(&label.instance);
        let mut found = Vec::new();
        for folder in self.folders() {
            let folder = folder?;
            let labels = unless_lack(folder.labels())?.unwrap_or_default();
            for label in labels.iter().filter(|label| is_wanted(label)) {
                found.extend(self.look(&folder, label)?);
            }
        }
        Ok(found)
    }

    /// The record of this label, if it is believed. An error: nobody can tell now.
    pub fn look(&self, folder: &Folder, label: &Label) -> io::Result<Option<Record>> {
        let record = folder.look(label)?;
        Ok(record.and_then(|record| match record.label.elsewhere {
            Some(_) => self.believe_elsewhere(record, folder.uid),
            None => self.believe_here(record, folder.uid),
        }))
    }

    /// The daemon's word.
    fn believe_elsewhere(&self, record: Record, teller: u32) -> Option<Record> {
        let counts = self.users == Users::All || self.trusted().contains(&record.uid);
        (may_be_daemon(teller, self.owner) && counts).then_some(record)
    }

    /// Who wrote it is who it is. Its address must mean the same to us as to its owner.
    fn believe_here(&self, record: Record, writer: u32) -> Option<Record> {
        let ip = record.address.ip();
        let is_near = record.namespace == self.namespace;
        let believed = Record {
            uid: writer,
            ..record
        };
        (is_near || is_of_the_network(ip)).then_some(believed)
    }

    pub fn namespace(&self) -> u64 {
        self.namespace
    }
}

/// What cannot be opened is not there, unless it is us who have no descriptor for it.
fn unless_lack<T>(opened: io::Result<T>) -> io::Result<Option<T>> {
    match opened {
        Ok(opened) => Ok(Some(opened)),
        Err(errno) if is_lack(errno) => Err(errno),
        Err(_) => Ok(None),
    }
}

/// Does it mean the same in another network namespace?
fn is_of_the_network(ip: IpAddr) -> bool {
    let is_link_local = match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    };
    !ip.is_loopback() && !ip.is_unspecified() && !is_link_local
}

/// Our network namespace.
fn namespace() -> io::Result<u64> {
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, flags, None)?;
    netns_cookie(Transient::new(socket).as_fd())
}
