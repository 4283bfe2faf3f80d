//! A pair of endpoints: the stream between them, what is under way on it in each direction, and who waits for it.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Waker};

use super::driver::Driver;
use super::error::MessageError;
use super::ready::{Alarm, Ready, Woken};
use super::receive::Receive;
use super::send::Send;
use super::wakers::Wakers;
use crate::future::TcpStream;

pub struct Link {
    pub stream: TcpStream,
    pub address: SocketAddr,
    pub driver: Rc<Driver>,
    pub send: RefCell<Send>,
    pub receive: RefCell<Receive>,
    /// Neither has it ended, nor is it mute.
    open: Cell<bool>,
    ended: Cell<bool>,
    /// Why it has ended.
    end: RefCell<Option<MessageError>>,
    /// Why nothing can be sent any more. What the other end has sent before is still to be received.
    mute: RefCell<Option<MessageError>>,
    /// Tasks that wait for credit, for their turn to send, or for the end.
    waiters: RefCell<Wakers>,
    pub alarm: Arc<Alarm>,
    /// The program knows of it.
    pub announced: Cell<bool>,
    waker: Waker,
}

impl Link {
    pub fn new(
        number: usize,
        stream: TcpStream,
        address: SocketAddr,
        driver: &Rc<Driver>,
        ready: &Arc<Ready>,
    ) -> Rc<Link> {
        let alarm = Alarm::new(Woken::Link(number), ready);
        Rc::new(Link {
            stream,
            address,
            driver: driver.clone(),
            send: RefCell::new(Send::new()),
            receive: RefCell::new(Receive::new(driver.window)),
            open: Cell::new(true),
            ended: Cell::new(false),
            end: RefCell::default(),
            mute: RefCell::default(),
            waiters: RefCell::default(),
            waker: Waker::from(alarm.clone()),
            alarm,
            announced: Cell::new(false),
        })
    }

    /// The endpoint is to look at it again.
    pub fn look_again(&self) {
        self.waker.wake_by_ref();
    }

    /// In the endpoint's name, which looks at it when it is woken.
    pub fn context(&self) -> Context<'_> {
        Context::from_waker(&self.waker)
    }

    pub fn check(&self) -> Result<(), MessageError> {
        if !self.ended.get() {
            return Ok(());
        }
        match &*self.end.borrow() {
            None => Ok(()),
            Some(error) => Err(error.clone()),
        }
    }

    #[inline]
    pub fn check_sending(&self) -> Result<(), MessageError> {
        if self.open.get() {
            return Ok(());
        }
        self.check()?;
        match &*self.mute.borrow() {
            None => Ok(()),
            Some(error) => Err(error.clone()),
        }
    }

    /// Nothing can be sent.
    #[inline]
    pub fn is_mute(&self) -> bool {
        !self.open.get()
    }

    pub fn fail_sending(&self, error: MessageError) {
        self.mute.borrow_mut().get_or_insert(error);
        self.open.set(false);
        self.wake_waiters();
        self.look_again();
    }

    #[inline]
    pub fn has_ended(&self) -> bool {
        self.ended.get()
    }

    /// It has ended, and nothing of it is left to be handled.
    pub fn is_over(&self) -> bool {
        self.has_ended() && !self.receive.borrow().has_unstarted()
    }

    /// The first reason counts. All who wait hear of it.
    pub fn fail(&self, error: MessageError) {
        {
            let mut end = self.end.borrow_mut();
            if end.is_some() {
                return;
            }
            *end = Some(error);
            self.ended.set(true);
            self.open.set(false);
        }
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
        let open = self.receive.borrow().unfinished();
        for message in open {
            message.wake();
        }
        self.wake_waiters();
        self.look_again();
    }

    pub fn wait(&self, task: &Context<'_>) {
        self.waiters.borrow_mut().add(task.waker());
        self.driver.note_waiter(task);
    }

    pub fn wake_waiters(&self) {
        let waiters = self.waiters.take();
        waiters.wake();
    }
}
