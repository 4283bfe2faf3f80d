//! Another user for servers that refuse to run as root, or should not.

use std::fs;

pub struct User {
    pub name: &'static str,
    pub group: String,
    pub uid: u32,
    pub gid: u32,
}

/// A user without rights, if we are root: else servers run as we do. Not `nobody`: in a user
/// namespace its number stands for every stranger, and ulsock trusts no end that has it.
pub fn for_servers() -> Option<User> {
    let root = rustix::process::geteuid().is_root();
    let find = || ["daemon", "www-data", "bin"].into_iter().find_map(find);
    root.then(find).flatten()
}

fn find(name: &'static str) -> Option<User> {
    let users = fs::read_to_string("/etc/passwd").ok()?;
    let groups = fs::read_to_string("/etc/group").ok()?;
    let (uid, gid) = users.lines().find_map(|line| ids(line, name))?;
    let group = groups.lines().find_map(|line| {
        let mut fields = line.split(':');
        let group = fields.next()?;
        (fields.nth(1)?.parse() == Ok(gid)).then(|| group.to_owned())
    })?;
    Some(User {
        name,
        group,
        uid,
        gid,
    })
}

/// User and group id of a line of passwd(5), if it is about `name`.
fn ids(line: &str, name: &str) -> Option<(u32, u32)> {
    let mut fields = line.split(':');
    (fields.next()? == name).then_some(())?;
    let uid = fields.nth(1)?.parse().ok()?;
    Some((uid, fields.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_passwd() {
        let line = "daemon:x:1:2:daemon:/usr/sbin:/usr/sbin/nologin";
        assert_eq!(ids(line, "daemon"), Some((1, 2)));
        assert_eq!(ids(line, "dae"), None);
    }
}
