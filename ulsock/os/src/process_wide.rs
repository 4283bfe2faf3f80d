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
    use std::ops::Deref;
    use std::ptr;
    use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

    thread_local! {
        static CURRENT: Cell<u32> = const { Cell::new(0) };
    }

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

    /// A declaration: how its value begins, and the values of all runtimes that have asked for it. Without a lock, as
    /// the static that it stands for: a child of fork would wait forever for one that another thread of its parent held.
    pub struct Owned<T> {
        begin: fn() -> T,
        newest: AtomicPtr<Value<T>>,
    }

    /// Never given back, as the process's own are.
    struct Value<T> {
        runtime: u32,
        // In a box, because some are too large to lie on a test's stack twice.
        value: Box<T>,
        older: *const Value<T>,
    }

    impl<T> Owned<T> {
        pub const fn new(begin: fn() -> T) -> Owned<T> {
            Owned {
                begin,
                newest: AtomicPtr::new(ptr::null_mut()),
            }
        }
    }

    /// That of a runtime among the values from this one on.
    fn find<'a, T>(runtime: u32, newest: *const Value<T>) -> Option<&'a T> {
        let mut at = newest;
        // SAFETY: null, or a value that nobody changes or gives back once others can see it.
        while let Some(value) = unsafe { at.as_ref() } {
            if value.runtime == runtime {
                return Some(&value.value);
            }
            at = value.older;
        }
        None
    }

    impl<T: Sync> Deref for Owned<T> {
        type Target = T;

        fn deref(&self) -> &T {
            let runtime = current();
            let mut newest = self.newest.load(Ordering::Acquire);
            if let Some(value) = find(runtime, newest) {
                return value;
            }
            let mut made = Box::new(Value {
                runtime,
                value: Box::new((self.begin)()),
                older: ptr::null(),
            });
            loop {
                // Another thread may have been first; a value's beginning may have asked for itself.
                if let Some(value) = find(runtime, newest) {
                    return value;
                }
                made.older = newest;
                let ours = Box::into_raw(made);
                match self.newest.compare_exchange(
                    newest,
                    ours,
                    Ordering::AcqRel,
                    Ordering::Acquire,
                ) {
                    // SAFETY: as in `find`.
                    Ok(_) => return unsafe { &(*ours).value },
                    // SAFETY: nobody else has seen it.
                    Err(now) => (newest, made) = (now, unsafe { Box::from_raw(ours) }),
                }
            }
        }
    }
}
