//! The argument list of execl and its kind: pointers in registers and on the stack, up to a null.

use libc::c_char;

/// Lists up to this long need no memory.
const SHORT: usize = 256;

/// The pointers behind the first named argument of a variadic call.
pub struct List {
    /// Those that came in registers, then those on the caller's stack.
    registers: *const usize,
    stack: *const usize,
}

impl List {
    /// Pointers that can come in registers, besides the named argument.
    const REGISTERS: usize = 5;

    /// # Safety
    /// `registers` has five words, and `stack` those of the caller.
    pub unsafe fn new(registers: *const usize, stack: *const usize) -> List {
        List { registers, stack }
    }

    /// # Safety
    /// The list has more than `at` pointers.
    unsafe fn get(&self, at: usize) -> usize {
        // SAFETY: pointer `at` is in the list, whose first five are in registers and the rest on the stack.
        unsafe {
            match at.checked_sub(List::REGISTERS) {
                None => *self.registers.add(at),
                Some(at) => *self.stack.add(at),
            }
        }
    }

    /// # Safety
    /// The list ends with a null pointer.
    unsafe fn count(&self) -> usize {
        // SAFETY: never beyond the null pointer.
        (0..).take_while(|at| unsafe { self.get(*at) } != 0).count()
    }

    /// The pointer behind the null.
    ///
    /// # Safety
    /// There is one.
    pub unsafe fn after(&self) -> usize {
        // SAFETY: the caller has put one more pointer behind the null.
        unsafe { self.get(self.count() + 1) }
    }

    /// Runs `call` with the list as an array that ends with a null pointer.
    ///
    /// # Safety
    /// The list ends with a null pointer.
    pub unsafe fn with<T>(&self, call: impl FnOnce(*const *const c_char) -> T) -> T {
        // SAFETY: the list ends with a null pointer, and only what stands before it is read.
        unsafe {
            let count = self.count();
            if count < SHORT {
                let mut array = [0; SHORT];
                (0..count).for_each(|at| array[at] = self.get(at));
                return call(array.as_ptr().cast());
            }
            let mut array: Vec<usize> = (0..count).map(|at| self.get(at)).collect();
            array.push(0);
            call(array.as_ptr().cast())
        }
    }
}
