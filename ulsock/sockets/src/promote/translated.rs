//! Connections whose addresses kernel rules have translated on the way: the two ends do not see the same ones.
//!
//! No program can prove by its own means who is at the other end of one: connection tracking tells it the address that
//! was called, but not a translated source, and the kernel translates sources whenever two connections would look the
//! same. So another connection than ours may have the addresses that we would look for. They are left to the daemon of
//! the host, which compares TCP's own numbers (`by_broker`). Programs in whose namespace nothing is tracked ask one
//! question more when they have found nobody, and no other.

use super::attempt::Attempt;
use crate::runtime::process;
use os::translated;

impl Attempt<'_> {
    /// It was led to us from another address, and may leave the kernel nevertheless.
    pub(super) fn is_redirected(&self) -> bool {
        let local = self.record.local();
        let led = |local| translated::is_redirected(self.socket, &local);
        process::config().redirected && local.is_some_and(led)
    }

    /// Kernel rules of this network namespace may have translated it: then also connections whose addresses mean
    /// something only here may have another end than these say.
    pub(super) fn may_be_translated(&self) -> bool {
        let ends = self.record.local().zip(self.record.peer());
        let config = process::config();
        let in_scope = |(local, peer)| config.scope.check(Some(local), peer).is_ok();
        let tracked = |(local, _)| translated::called(self.socket, &local).is_some();
        config.redirected && ends.is_some_and(|ends| in_scope(ends) && tracked(ends))
    }
}
