//! How a program's own types become bytes and are made of them again. Bytes are what they are.

use std::borrow::Cow;
use std::convert::Infallible;
use std::fmt::Display;

/// Can be sent.
pub trait Encode {
    type Error: Display;

    /// Adds its bytes to these.
    fn encode(&self, bytes: &mut Vec<u8>) -> Result<(), Self::Error>;

    /// All of them; what consists of bytes already shows these.
    fn bytes(&self) -> Result<Cow<'_, [u8]>, Self::Error> {
        let mut bytes = Vec::new();
        self.encode(&mut bytes)?;
        Ok(Cow::Owned(bytes))
    }
}

/// Can be received. The bytes come from another process: whatever they are, the answer is a value or an error.
pub trait Decode: Sized {
    type Error: Display;

    fn decode(bytes: Vec<u8>) -> Result<Self, Self::Error>;
}

impl Encode for [u8] {
    type Error = Infallible;

    fn encode(&self, bytes: &mut Vec<u8>) -> Result<(), Infallible> {
        bytes.extend_from_slice(self);
        Ok(())
    }

    fn bytes(&self) -> Result<Cow<'_, [u8]>, Infallible> {
        Ok(Cow::Borrowed(self))
    }
}

impl Encode for Vec<u8> {
    type Error = Infallible;

    fn encode(&self, bytes: &mut Vec<u8>) -> Result<(), Infallible> {
        self.as_slice().encode(bytes)
    }

    fn bytes(&self) -> Result<Cow<'_, [u8]>, Infallible> {
        Ok(Cow::Borrowed(self))
    }
}

impl<T: Encode + ?Sized> Encode for &T {
    type Error = T::Error;

    fn encode(&self, bytes: &mut Vec<u8>) -> Result<(), T::Error> {
        (**self).encode(bytes)
    }

    fn bytes(&self) -> Result<Cow<'_, [u8]>, T::Error> {
        (**self).bytes()
    }
}

impl Decode for Vec<u8> {
    type Error = Infallible;

    fn decode(bytes: Vec<u8>) -> Result<Vec<u8>, Infallible> {
        Ok(bytes)
    }
}
