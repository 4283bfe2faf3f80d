//! The two macros that every hook is made of: `hooks!` declares exported functions and lists their
//! real counterparts for load time, `answer!` turns a verdict into libc's return value.

/// Declares hooks. Each becomes a module of its name that holds the exported symbol, `hooked` (the
/// same as a Rust function) and `real()`. The word before `fn` says how the symbol is exported:
///
/// - `redhook`: by redhook's macro, the usual way;
/// - `by_hand`: where the function does not return or this libc may lack it (redhook aborts then);
/// - `variadic`: stable Rust cannot define a C variadic function, but in this calling convention
///   its integer arguments lie where those of an ordinary function do;
/// - `forward`: variadic functions whose arguments are unknown: the body runs first, then the real
///   function takes over with registers and stack as the caller left them;
/// - `redirect`: the same, but the body names the function that takes over;
/// - `listed`: variadic functions with one named argument and a list of pointers that ends with a
///   null: the body does the whole work.
macro_rules! hooks {
    ($(
        $(#[$meta:meta])*
        $kind:ident fn $name:ident($($arg:ident: $ty:ty),*) $(-> $ret:ty)? $body:block
    )*) => {
        $(
            $(#[$meta])*
            pub mod $name {
                use super::*;
                hook_body! { $kind $name ($($arg: $ty),*) ($(-> $ret)?) $body }
            }
        )*

        /// Looks up the real functions of this file.
        pub const RESOLVE: &[fn()] = &[$(|| { $name::real(); }),*];
    };
}

macro_rules! hook_body {
    (redhook $name:ident ($($arg:ident: $ty:ty),*) (-> $ret:ty) $body:block) => {
        redhook::hook! { unsafe fn $name($($arg: $ty),*) -> $ret => hooked $body }

        pub fn real() -> unsafe extern "C" fn($($ty),*) -> $ret {
            redhook::real!($name)
        }
    };

    (by_hand $name:ident ($($arg:ident: $ty:ty),*) ($(-> $ret:ty)?) $body:block) => {
        type Function = unsafe extern "C" fn($($ty),*) $(-> $ret)?;
        exported! { $name ($($arg: $ty),*) ($(-> $ret)?) $body }
    };

    (variadic $name:ident ($($arg:ident: $ty:ty),*) (-> $ret:ty) $body:block) => {
        type Function = unsafe extern "C" fn($($ty),*, ...) -> $ret;
        exported! { $name ($($arg: $ty),*) (-> $ret) $body }
    };

    (listed $name:ident ($arg:ident: $ty:ty, $list:ident: $list_ty:ty) (-> $ret:ty) $body:block) => {
        listed_body! { $name ($arg: $ty, $list: $list_ty) (-> $ret) $body }
    };

    (forward $name:ident ($($arg:ident: $ty:ty),*) () $body:block) => {
        hook_body! { redirect $name ($($arg: $ty),*) () {
            $body
            real()
        } }
    };

    (redirect $name:ident ($($arg:ident: $ty:ty),*) () $body:block) => {
        static REAL: crate::real::Real = crate::real::Real::new(c_name!($name));

        pub fn real() -> *mut libc::c_void {
            REAL.get()
        }

        unsafe extern "C" fn before($($arg: $ty),*) -> *mut libc::c_void $body

        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name() {
            // All registers that may hold arguments are kept across `before` (System V ABI for
            // x86_64, 3.2.3; al counts the vector registers in use). 184 bytes and the return
            // address make a multiple of 16.
            core::arch::naked_asm!(
                ".cfi_startproc",
                "sub rsp, 184",
                ".cfi_adjust_cfa_offset 184",
                "movups [rsp], xmm0",
                "movups [rsp + 16], xmm1",
                "movups [rsp + 32], xmm2",
                "movups [rsp + 48], xmm3",
                "movups [rsp + 64], xmm4",
                "movups [rsp + 80], xmm5",
                "movups [rsp + 96], xmm6",
                "movups [rsp + 112], xmm7",
                "mov [rsp + 128], rdi",
                "mov [rsp + 136], rsi",
                "mov [rsp + 144], rdx",
                "mov [rsp + 152], rcx",
                "mov [rsp + 160], r8",
                "mov [rsp + 168], r9",
                "mov [rsp + 176], rax",
                "call {before}",
                "mov r11, rax",
                "movups xmm0, [rsp]",
                "movups xmm1, [rsp + 16]",
                "movups xmm2, [rsp + 32]",
                "movups xmm3, [rsp + 48]",
                "movups xmm4, [rsp + 64]",
                "movups xmm5, [rsp + 80]",
                "movups xmm6, [rsp + 96]",
                "movups xmm7, [rsp + 112]",
                "mov rdi, [rsp + 128]",
                "mov rsi, [rsp + 136]",
                "mov rdx, [rsp + 144]",
                "mov rcx, [rsp + 152]",
                "mov r8, [rsp + 160]",
                "mov r9, [rsp + 168]",
                "mov rax, [rsp + 176]",
                "add rsp, 184",
                ".cfi_adjust_cfa_offset -184",
                "jmp r11",
                ".cfi_endproc",
                before = sym before,
            )
        }
    };
}

macro_rules! listed_body {
    ($name:ident ($arg:ident: $ty:ty, $list:ident: $list_ty:ty) (-> $ret:ty) $body:block) => {
        /// It has none: the hook of another name does its work.
        pub fn real() {}

        unsafe extern "C" fn body($arg: $ty, registers: *const usize, stack: *const usize) -> $ret {
            // SAFETY: the function below has put the registers there, and the stack is its caller's.
            let $list: $list_ty = unsafe { &crate::list::List::new(registers, stack) };
            $body
        }

        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name() {
            // 40 bytes and the return address make a multiple of 16.
            core::arch::naked_asm!(
                ".cfi_startproc",
                "sub rsp, 40",
                ".cfi_adjust_cfa_offset 40",
                "mov [rsp], rsi",
                "mov [rsp + 8], rdx",
                "mov [rsp + 16], rcx",
                "mov [rsp + 24], r8",
                "mov [rsp + 32], r9",
                "mov rsi, rsp",
                "lea rdx, [rsp + 48]",
                "call {body}",
                "add rsp, 40",
                ".cfi_adjust_cfa_offset -40",
                "ret",
                ".cfi_endproc",
                body = sym body,
            )
        }
    };
}

/// The part that `by_hand` and `variadic` share.
macro_rules! exported {
    ($name:ident ($($arg:ident: $ty:ty),*) ($(-> $ret:ty)?) $body:block) => {
        static REAL: crate::real::Real = crate::real::Real::new(c_name!($name));

        pub fn real() -> Function {
            // SAFETY: the address is libc's function of this name, whose C prototype is `Function`.
            unsafe { std::mem::transmute::<*mut libc::c_void, Function>(REAL.get()) }
        }

        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $ty),*) $(-> $ret)? {
            // SAFETY: the program's own arguments.
            unsafe { hooked($($arg),*) }
        }

        #[inline(always)]
        pub unsafe fn hooked($($arg: $ty),*) $(-> $ret)? $body
    };
}

macro_rules! c_name {
    ($name:ident) => {
        match std::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
            Ok(name) => name,
            Err(_) => unreachable!(),
        }
    };
}

/// Second names under which glibc exports a function that is hooked.
macro_rules! aliases {
    ($(fn $alias:ident($($arg:ident: $ty:ty),*) -> $ret:ty = $name:ident;)*) => {
        $(
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $alias($($arg: $ty),*) -> $ret {
                // SAFETY: the program's own arguments.
                unsafe { $name::hooked($($arg),*) }
            }
        )*
    };
}

/// Hands a call on to `api` and, if the verdict says so, to the real function.
macro_rules! answer {
    ($verdict:expr, $real:expr) => {
        // SAFETY: the program's own arguments, handed on as it gave them.
        unsafe {
            match $verdict {
                Verdict::Bypass => $real,
                Verdict::Kernel(inflight) => {
                    let result = $real;
                    inflight.done(result as isize);
                    result
                }
                Verdict::Counted(call) => {
                    let result = $real;
                    call.done(result as isize);
                    result
                }
                Verdict::Young(call) => {
                    let result = $real;
                    call.done(result as isize);
                    result
                }
                Verdict::Done(result) => result as _,
                Verdict::Fail(error) => crate::errno::fail(error) as _,
            }
        }
    };
}

/// The same for a call with one buffer, which `api` has usually done at the `first` attempt.
macro_rules! answer_first {
    ($first:expr, $verdict:expr, $real:expr) => {
        match $first {
            // SAFETY: the program's own arguments, handed on as it gave them.
            First::Foreign => unsafe { $real },
            First::Done(result) => result as _,
            First::Failed(error) => crate::errno::fail(error) as _,
            First::Young(call) => {
                // SAFETY: as above.
                let result = unsafe { $real };
                call.done(result as isize);
                result
            }
            First::Other => answer!($verdict, $real),
        }
    };
}
