//! State that a process has once, and who owns it.
//!
//! All of it is declared by `process_wide!`. In the product each declaration is a plain static, and
//! the process is its owner. With the feature `runtimes`, which only unit tests have, the owner is a `Runtime`: several of
//! them stand in one test process, each with a table of descriptors, records, threads and waiters of its own, and talk to
//! each other by the kernel's real sockets. A test acts as the one or the other with `Runtime::run`.

/// Declares statics that every process, or every `Runtime` of a unit test, has once.
#[cfg(not(feature = "runtimes"))]
#[macro_export]
macro_rules! process_wide {
    ($($(#[$attribute:meta])* $visible:vis static $name:ident: $type:ty = $value:expr;)+) => {
        $($(#[$attribute])* $visible static $name: $type = $value;)+
    };
}

/// Declares statics that every process, or every `Runtime` of a unit test, has once.
#[cfg(feature = "runtimes")]
#[macro_export]
macro_rules! process_wide {
    ($($(#[$attribute:meta])* $visible:vis static $name:ident: $type:ty = $value:expr;)+) => {
        $($(#[$attribute])* $visible static $name: $crate::process_wide::Owned<$type> =
            $crate::process_wide::Owned::new(|| $value);)+
    };
}

#[cfg(feature = "runtimes")]
pub use runtimes::{Owned, Runtime, current};

#[cfg(feature = "runtimes")]
mod runtimes {
    use std::cell::Cell;
    use std::collections::HashMap;
    use std::ops::Deref;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::sync::{LazyLock, Mutex, PoisonError};

    thread_local! {
        static CURRENT: Cell<u32> = const { Cell::new(0) };
    }

    /// Values by runtime and declaration; leaked, as the process's own are.
    static VALUES: LazyLock<Mutex<HashMap<(u32, usize), usize>>> = LazyLock::new(Mutex::default);

    /// The owner of everything that a process has once.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Runtime(u32);

    impl Runtime {
        /// As of a process that has just started.
        #[expect(clippy::new_without_default, reason = "each one is another")]
        pub fn new() -> Runtime {
            static NEXT: AtomicU32 = AtomicU32::new(1);
            Runtime(NEXT.fetch_add(1, Ordering::Relaxed))
        }

        /// Acts as this one.
        pub fn run<R>(self, act: impl FnOnce() -> R) -> R {
            struct Back(u32);
            impl Drop for Back {
                fn drop(&mut self) {
                    CURRENT.set(self.0);
                }
            }
            let _back = Back(CURRENT.replace(self.0));
            act()
        }
    }

    /// The number of the runtime that the calling thread acts as; 0: the process itself.
    pub fn current() -> u32 {
        CURRENT.get()
    }

    /// A declaration, and how its value begins.
    pub struct Owned<T> {
        begin: fn() -> T,
    }

    impl<T> Owned<T> {
        pub const fn new(begin: fn() -> T) -> Owned<T> {
            Owned { begin }
        }
    }

    /// Puts this thread's `errno` back when it is dropped.
    struct KeptErrno(libc::c_int);

    impl KeptErrno {
        fn new() -> KeptErrno {
            // SAFETY: this thread's own errno.
            KeptErrno(unsafe { *libc::__errno_location() })
        }
    }

    impl Drop for KeptErrno {
        fn drop(&mut self) {
            // SAFETY: this thread's own errno.
            unsafe { *libc::__errno_location() = self.0 };
        }
    }

    impl<T: Sync> Deref for Owned<T> {
        type Target = T;

        fn deref(&self) -> &T {
            // A mutex that others hold waits by libc, which sets `errno`; a static does not.
            let _errno = KeptErrno::new();
            let key = (current(), std::ptr::from_ref(self) as usize);
            let known = |values: &HashMap<_, usize>| values.get(&key).copied();
            let values = || VALUES.lock().unwrap_or_else(PoisonError::into_inner);
            let found = known(&values());
            let at = found.unwrap_or_else(|| {
                // Made without the lock: a value's beginning may ask for others.
                let made = Box::into_raw(Box::new((self.begin)()));
                *values().entry(key).or_insert(made as usize)
            });
            // SAFETY: made for this very declaration, hence a `T`, and leaked.
            unsafe { &*(at as *const T) }
        }
    }
}
