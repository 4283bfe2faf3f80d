//! The bodies that are not stream bytes.

/// Padded, so that no answer is longer: `[X3]`.
pub const HELLO: usize = 64;
pub const WELCOME: usize = 28;
pub const OPEN: usize = 40;
pub const RESET: usize = 2;

/// Who an engine is, and the tag by which it knows this link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    pub incarnation: u64,
    pub tag: u32,
}

impl Hello {
    pub fn parse(body: &[u8]) -> Option<Hello> {
        let mut fields = Fields(body);
        Some(Hello {
            incarnation: fields.u64()?,
            tag: fields.u32()?,
        })
    }

    pub fn emit(&self) -> [u8; HELLO] {
        let mut body = [0; HELLO];
        body[..8].copy_from_slice(&self.incarnation.to_be_bytes());
        body[8..12].copy_from_slice(&self.tag.to_be_bytes());
        body
    }
}

/// WELCOME and CONFIRM: who answers whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Welcome {
    pub me: Hello,
    /// The incarnation that is answered.
    pub you: u64,
    pub challenge: u64,
}

impl Welcome {
    pub fn parse(body: &[u8]) -> Option<Welcome> {
        let mut fields = Fields(body);
        Some(Welcome {
            me: Hello {
                incarnation: fields.u64()?,
                tag: fields.u32()?,
            },
            you: fields.u64()?,
            challenge: fields.u64()?,
        })
    }

    pub fn emit(&self) -> [u8; WELCOME] {
        let mut body = [0; WELCOME];
        body[..8].copy_from_slice(&self.me.incarnation.to_be_bytes());
        body[8..12].copy_from_slice(&self.me.tag.to_be_bytes());
        body[12..20].copy_from_slice(&self.you.to_be_bytes());
        body[20..].copy_from_slice(&self.challenge.to_be_bytes());
        body
    }
}

/// OPEN and ACCEPT: a connection as one end sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Open {
    pub name: u64,
    /// By which it wants to be addressed.
    pub token: u64,
    pub send_from: u64,
    pub receive_from: u64,
    pub credit: u64,
}

impl Open {
    pub fn parse(body: &[u8]) -> Option<Open> {
        let mut fields = Fields(body);
        Some(Open {
            name: fields.u64()?,
            token: fields.u64()?,
            send_from: fields.u64()?,
            receive_from: fields.u64()?,
            credit: fields.u64()?,
        })
    }

    pub fn emit(&self) -> [u8; OPEN] {
        let fields = [
            self.name,
            self.token,
            self.send_from,
            self.receive_from,
            self.credit,
        ];
        let mut body = [0; OPEN];
        for (slot, field) in body.as_chunks_mut::<8>().0.iter_mut().zip(fields) {
            *slot = field.to_be_bytes();
        }
        body
    }
}

/// What is left of a body.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*field)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_be_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_be_bytes)
    }
}
