//! The calls that are recorded.

macro_rules! calls {
    ($($name:ident $word:literal $class:ident,)*) => {
        /// A function of libc; its second names are the same call.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum Call { $($name,)* }

        impl Call {
            pub const ALL: &[Call] = &[$(Call::$name,)*];

            pub fn name(self) -> &'static str {
                match self { $(Call::$name => $word,)* }
            }

            pub fn class(self) -> Class {
                match self { $(Call::$name => Class::$class,)* }
            }
        }
    };
}

calls! {
    Connect "connect" Open,
    Accept "accept" Open,
    Accept4 "accept4" Open,
    Read "read" Receive,
    Readv "readv" Receive,
    Recv "recv" Receive,
    Recvfrom "recvfrom" Receive,
    Recvmsg "recvmsg" Receive,
    Recvmmsg "recvmmsg" ReceiveMany,
    Preadv2 "preadv2" Receive,
    Write "write" Send,
    Writev "writev" Send,
    Send "send" Send,
    Sendto "sendto" Send,
    Sendmsg "sendmsg" Send,
    Sendmmsg "sendmmsg" SendMany,
    Pwritev2 "pwritev2" Send,
    Sendfile "sendfile" Send,
    Poll "poll" Wait,
    Ppoll "ppoll" Wait,
    Select "select" Wait,
    Pselect "pselect" Wait,
    EpollWait "epoll_wait" Wait,
    EpollPwait "epoll_pwait" Wait,
    EpollPwait2 "epoll_pwait2" Wait,
    Shutdown "shutdown" Close,
    Close "close" Close,
}

/// What a call is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// A connection begins.
    Open,
    /// Its result is a number of bytes.
    Receive,
    Send,
    /// Its result is a number of messages, and bytes are counted apart.
    ReceiveMany,
    SendMany,
    /// For readiness.
    Wait,
    Close,
}

impl Class {
    pub fn receives(self) -> bool {
        matches!(self, Class::Receive | Class::ReceiveMany)
    }

    pub fn sends(self) -> bool {
        matches!(self, Class::Send | Class::SendMany)
    }
}

impl Call {
    pub fn from_number(number: u8) -> Option<Call> {
        Call::ALL.get(usize::from(number)).copied()
    }
}
