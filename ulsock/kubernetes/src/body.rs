//! What an answer consists of, as a whole or line by line. Its length is bounded, whatever the server says.

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// 500 nodes, as a server tells all of them that does not know of names and annotations alone.
const LONGEST: usize = 64 << 20;
/// A node: the API server takes objects of 1.5 MiB.
const LONGEST_LINE: usize = 4 << 20;
/// For a whole one.
const WHOLE: Duration = Duration::from_secs(30);
/// Of an error, so much is shown.
const SHOWN: usize = 200;

pub struct Body {
    incoming: Incoming,
    /// What drives the connection, as long as we want to hear from it.
    driver: JoinHandle<()>,
    /// What has come of the next line.
    begun: Vec<u8>,
    /// Of that, so much has no end of a line in it.
    searched: usize,
}

impl Body {
    pub fn new(incoming: Incoming, driver: JoinHandle<()>) -> Body {
        Body {
            incoming,
            driver,
            begun: Vec::new(),
            searched: 0,
        }
    }

    pub async fn whole(&mut self) -> Result<Vec<u8>, String> {
        let read = timeout(WHOLE, self.read(LONGEST)).await;
        read.unwrap_or_else(|_| Err("no whole answer in time".to_owned()))
    }

    /// For a message.
    pub async fn beginning(&mut self) -> String {
        let _ = timeout(WHOLE, self.read(SHOWN)).await;
        os::plain::plain(&self.begun[..self.begun.len().min(SHOWN)])
    }

    async fn read(&mut self, most: usize) -> Result<Vec<u8>, String> {
        while let Some(bytes) = self.next().await? {
            self.begun.extend(bytes);
            if self.begun.len() > most {
                return Err("its answer is too long".to_owned());
            }
        }
        Ok(std::mem::take(&mut self.begun))
    }

    /// `None`: there are no more. To be called again if it was not waited for to its end.
    pub async fn line(&mut self) -> Result<Option<Vec<u8>>, String> {
        loop {
            let rest = &self.begun[self.searched..];
            if let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                let rest = self.begun.split_off(self.searched + end + 1);
                self.searched = 0;
                return Ok(Some(std::mem::replace(&mut self.begun, rest)));
            }
            self.searched = self.begun.len();
            if self.searched > LONGEST_LINE {
                return Err("it tells of a node that is too long".to_owned());
            }
            match self.next().await? {
                Some(bytes) => self.begun.extend(bytes),
                None => return Ok(None),
            }
        }
    }

    async fn next(&mut self) -> Result<Option<Bytes>, String> {
        loop {
            let Some(frame) = self.incoming.frame().await else {
                return Ok(None);
            };
            let frame = frame.map_err(|why| why.to_string())?;
            if let Ok(bytes) = frame.into_data() {
                return Ok(Some(bytes));
            }
        }
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        self.driver.abort();
    }
}
