//! Whether a program gets more rights than who starts it: then the loader does not load the library, and the library,
//! where /etc/ld.so.preload names it, is off.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{StatVfsMountFlags, getxattr, statvfs};
use rustix::process::{getgid, getuid};

const SETUID: u32 = 0o4000;
const SETGID: u32 = 0o2000;
/// Without it the bit meant a kind of lock.
const GROUP_EXECUTES: u32 = 0o010;

/// Which rights those are. As the kernel decides (security/commoncap.c): root who runs root's program gets none.
pub fn gained(path: &Path) -> Option<String> {
    let data = path.metadata().ok()?;
    if statvfs(path).is_ok_and(|it| it.f_flag.contains(StatVfsMountFlags::NOSUID)) {
        return None;
    }
    let uid = getuid().as_raw();
    by_mode(&data, uid, getgid().as_raw()).or_else(|| {
        let has_some = uid != 0 && getxattr(path, "security.capability", &mut [0_u8; 64]).is_ok();
        has_some.then(|| "its file has capabilities (getcap shows them)".to_owned())
    })
}

fn by_mode(data: &Metadata, uid: u32, gid: u32) -> Option<String> {
    let mode = data.mode();
    if mode & SETUID != 0 && data.uid() != uid {
        return Some(format!("it is setuid, and its owner is uid {}", data.uid()));
    }
    let is_setgid = mode & SETGID != 0 && mode & GROUP_EXECUTES != 0;
    (is_setgid && data.gid() != gid)
        .then(|| format!("it is setgid, and its group is gid {}", data.gid()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn only_foreign_rights_count() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let asked = |mode, uid_plus, gid_plus| {
            fs::set_permissions(file.path(), fs::Permissions::from_mode(mode)).unwrap();
            let data = file.path().metadata().unwrap();
            by_mode(&data, data.uid() + uid_plus, data.gid() + gid_plus).is_some()
        };
        assert!(asked(0o4755, 1, 0) && !asked(0o4755, 0, 0));
        assert!(asked(0o2755, 0, 1) && !asked(0o2755, 1, 0) && !asked(0o2745, 1, 1));
        assert!(!asked(0o755, 1, 1));
        assert_eq!(gained(Path::new("/bin/sh")), None);
    }
}
