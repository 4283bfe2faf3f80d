//! Users as the kernel names them.

use super::proc::users_are_distinct;
use super::window::OVERFLOW_UID;

/// Does a uid prove who somebody is? Several users of other user namespaces may share the overflow uid.
pub fn names_one_user(uid: u32) -> bool {
    uid != OVERFLOW_UID || users_are_distinct()
}
