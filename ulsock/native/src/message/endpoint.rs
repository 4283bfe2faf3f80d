//! An endpoint: its peers, its handlers, and the extraction of messages.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use slab::Slab;

use super::driver::Driver;
use super::error::MessageError;
use super::frame::Frame;
use super::handlers::{Handler, Handlers};
use super::incoming::{Incoming, Message};
use super::layer::{Layer, Layers, RESERVED, Tasks};
use super::link::Link;
use super::peer::Peer;
use super::ready::{Alarm, Ready, Woken};
use crate::future::{TcpListener, TcpStream};
use crate::run;

/// What a peer may have sent that no handler has taken, for each class, if nothing else is said.
const WINDOW: usize = 256 << 10;

/// Connections that have not greeted yet: nobody else gets any memory.
const MOST_STRANGERS: usize = 64;

/// Without descriptors, until it is tried again.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Where messages are sent from, and received. It belongs to one thread; a program with several has one for each.
///
/// Handlers run while somebody waits in [`extract`](Endpoint::extract) or [`serve`](Endpoint::serve).
pub struct Endpoint {
    parts: Rc<Parts>,
}

struct Parts {
    driver: Rc<Driver>,
    ready: Arc<Ready>,
    handlers: Rc<Handlers>,
    layers: Layers,
    links: RefCell<Slab<Rc<Link>>>,
    listener: Option<(TcpListener, Arc<Alarm>, Waker)>,
    /// Who have connected and not greeted, the oldest first.
    strangers: RefCell<Vec<Rc<Link>>>,
    /// Somebody could not be accepted.
    accepts_later: Rc<Cell<bool>>,
    on_arrival: RefCell<Option<Rc<OnArrival>>>,
}

type OnArrival = dyn Fn(Peer);

impl Endpoint {
    /// One that can only connect.
    pub fn new() -> Endpoint {
        Endpoint::made(None, WINDOW)
    }

    /// One that others can connect to.
    pub fn bind(at: impl ToSocketAddrs) -> io::Result<Endpoint> {
        Ok(Endpoint::made(Some(TcpListener::bind(at)?), WINDOW))
    }

    /// The same with another window: what each peer may have sent that no handler has taken yet. At least 16 KiB.
    pub fn bind_with_window(at: impl ToSocketAddrs, window: usize) -> io::Result<Endpoint> {
        Ok(Endpoint::made(Some(TcpListener::bind(at)?), window))
    }

    fn made(listener: Option<TcpListener>, window: usize) -> Endpoint {
        let ready = Arc::new(Ready::default());
        let listener = listener.map(|listener| {
            let alarm = Alarm::new(Woken::Listener, &ready);
            let waker = Waker::from(alarm.clone());
            waker.wake_by_ref();
            (listener, alarm, waker)
        });
        let parts = Parts {
            driver: Rc::new(Driver::new(window.min(u32::MAX as usize))),
            handlers: Rc::new(Handlers::new(&ready)),
            layers: Layers::default(),
            ready,
            links: RefCell::default(),
            listener,
            strangers: RefCell::default(),
            accepts_later: Rc::default(),
            on_arrival: RefCell::default(),
        };
        Endpoint {
            parts: Rc::new(parts),
        }
    }

    /// Where others can connect to.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        let (listener, ..) = self.parts.listener.as_ref()?;
        listener.local_addr().ok()
    }

    /// From now on messages of this number are handled so. The handler is started when the first bytes of a message have
    /// come, and may wait: others run meanwhile. Its error ends its message, and nothing else.
    ///
    /// # Panics
    /// With a number from 0xff00 on: those are ulsock's own.
    pub fn handle<M, F>(&self, number: u16, make: M)
    where
        M: Fn(Incoming) -> F + 'static,
        F: Future<Output = Result<(), MessageError>> + 'static,
    {
        assert!(
            number < RESERVED,
            "the handler number {number:#x} is reserved: numbers below {RESERVED:#x} are the program's"
        );
        self.handle_own(number, make);
    }

    /// The same for ulsock's own numbers.
    pub(crate) fn handle_own<M, F>(&self, number: u16, make: M)
    where
        M: Fn(Incoming) -> F + 'static,
        F: Future<Output = Result<(), MessageError>> + 'static,
    {
        self.parts
            .handlers
            .insert(number, Rc::new(Handler::new(make)));
    }

    /// From now on this is called with each peer that has connected to this endpoint, before its first message is handled.
    pub fn on_arrival(&self, call: impl Fn(Peer) + 'static) {
        let before = self.parts.on_arrival.replace(Some(Rc::new(call)));
        drop(before);
    }

    pub(crate) fn has_handler(&self, number: u16) -> bool {
        self.parts.handlers.find(number).is_some()
    }

    /// This one hears of the ends of peers and of this endpoint.
    pub(crate) fn add_layer(&self, layer: Weak<dyn Layer>) {
        self.parts.layers.add(layer);
    }

    /// If somebody extracts, this task is woken when he has done so.
    pub(crate) fn note_waiter(&self, task: &Context<'_>) {
        self.parts.driver.note_waiter(task);
    }

    pub(crate) fn tasks(&self) -> Tasks {
        Tasks::new(&self.parts.handlers)
    }

    pub async fn connect(&self, to: SocketAddr) -> Result<Peer, MessageError> {
        self.parts.forget_ended();
        let stream = TcpStream::connect(to).await?;
        let link = self.parts.add(stream, to)?;
        link.announced.set(true);
        Ok(Peer::new(link))
    }

    /// All that are connected, in no order.
    pub fn peers(&self) -> Vec<Peer> {
        let links = self.parts.links.borrow();
        let is_live = |link: &Rc<Link>| link.announced.get() && !link.has_ended();
        let live = links.iter().filter(|(_, link)| is_live(link));
        live.map(|(_, link)| Peer::new(link.clone())).collect()
    }

    /// Hands what has come to its handlers, at most `most` bytes, and tells how many bytes they have taken; waits until it
    /// can do so for at least one message or piece. So a receiver that does not extract, or little, holds its senders back.
    ///
    /// Dropped, it has lost nothing.
    pub async fn extract(&self, most: usize) -> Result<usize, MessageError> {
        if most == 0 {
            return Ok(0);
        }
        let driving = Driving::begin(&self.parts, most)?;
        poll_fn(|task| driving.poll(task, true)).await
    }

    /// The same without waiting: `None` if nothing has come.
    pub fn extract_now(&self, most: usize) -> Result<Option<usize>, MessageError> {
        let driving = Driving::begin(&self.parts, most)?;
        let mut task = Context::from_waker(Waker::noop());
        match driving.poll(&mut task, false) {
            Poll::Ready(done) => done.map(Some),
            // Other tasks are to have their turn; but something may have been taken.
            Poll::Pending => {
                let driver = &self.parts.driver;
                Ok(driver.has_done_something().then(|| driver.taken()))
            }
        }
    }

    /// Extracts as long as it is waited for.
    pub async fn serve(&self) -> Result<(), MessageError> {
        let driving = Driving::begin(&self.parts, usize::MAX)?;
        loop {
            poll_fn(|task| driving.poll(task, true)).await?;
            self.parts.driver.begin(usize::MAX);
        }
    }
}

impl Default for Endpoint {
    fn default() -> Endpoint {
        Endpoint::new()
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.parts.handlers.clear();
        let links = std::mem::take(&mut *self.parts.links.borrow_mut());
        for (_, link) in &links {
            link.fail(MessageError::PeerGone);
            self.parts.layers.gone(&Peer::new(link.clone()));
        }
        self.parts.driver.ends();
        self.parts.layers.ended();
    }
}

/// Somebody extracts.
struct Driving<'a> {
    parts: &'a Rc<Parts>,
}

impl<'a> Driving<'a> {
    fn begin(parts: &'a Rc<Parts>, most: usize) -> Result<Driving<'a>, MessageError> {
        if parts.driver.is_driven() {
            return Err(MessageError::Extracting);
        }
        parts.driver.begin(most);
        Ok(Driving { parts })
    }

    fn poll(
        &self,
        task: &mut Context<'_>,
        mut may_wait: bool,
    ) -> Poll<Result<usize, MessageError>> {
        const ROUNDS: usize = 64;
        let parts = self.parts;
        for _ in 0..ROUNDS {
            parts.run_handlers();
            if parts.driver.budget() == 0 {
                break;
            }
            match parts.ready.next_link() {
                Some(Woken::Link(number)) => parts.extract(number),
                Some(_) => parts.accept(),
                None if parts.driver.has_done_something() => break,
                None if std::mem::take(&mut may_wait) && parts.wait_in_place() => {}
                None => break,
            }
        }
        // Now and then other tasks of this thread have their turn, whatever comes.
        if parts.driver.has_done_something() && parts.driver.may_go_on() {
            return Poll::Ready(Ok(parts.driver.taken()));
        }
        if parts.ready.drive(task.waker()) || parts.driver.has_done_something() {
            task.waker().wake_by_ref();
        }
        Poll::Pending
    }
}

impl Drop for Driving<'_> {
    fn drop(&mut self) {
        self.parts.driver.end();
    }
}

impl Parts {
    fn add(&self, stream: TcpStream, address: SocketAddr) -> Result<Rc<Link>, MessageError> {
        let _ = stream.set_nodelay(true);
        let mut links = self.links.borrow_mut();
        let place = links.vacant_entry();
        let link = Link::new(place.key(), stream, address, &self.driver, &self.ready);
        place.insert(link.clone());
        drop(links);
        link.greet();
        link.look_again();
        link.check_sending()?;
        Ok(link)
    }

    fn run_handlers(&self) {
        // Those that wake themselves meanwhile have their turn later.
        for _ in 0..self.ready.handlers() {
            let Some(key) = self.ready.next_handler() else {
                return;
            };
            if let Some(class) = self.handlers.class(key) {
                self.driver.handle(class, || self.handlers.run(key));
            }
        }
    }

    /// The only peer answers at once, perhaps, and is heard then. Whether something has come.
    fn wait_in_place(&self) -> bool {
        let only = {
            let links = self.links.borrow();
            let mut all = links.iter();
            match (all.next(), all.next()) {
                (Some((number, link)), None) => Some((number, link.clone())),
                _ => None,
            }
        };
        let Some((number, link)) = only else {
            return false;
        };
        if link.has_ended() || !run::wait_in_place(&link.stream) {
            return false;
        }
        self.extract(number);
        true
    }

    fn extract(&self, number: usize) {
        let link = self.links.borrow().get(number).cloned();
        let Some(link) = link else {
            return;
        };
        link.alarm.looked_at();
        let begin = |message: &Rc<Message>| self.begin(&link, message);
        link.extract(&begin, &|| self.run_handlers());
        self.announce(&link);
        let refused = link.send.borrow_mut().take_own_refusal();
        if let Some(number) = refused {
            self.layers.refused(&Peer::new(link.clone()), number);
        }
        if link.is_over() {
            self.forget(number, &link);
        }
    }

    /// There is nothing left of it to be handled.
    fn forget(&self, number: usize, link: &Rc<Link>) {
        let removed = self.links.borrow_mut().try_remove(number);
        if removed.is_none() {
            return;
        }
        self.forget_stranger(link);
        self.layers.gone(&Peer::new(link.clone()));
        // There is a descriptor again.
        if let Some((_, _, waker)) = &self.listener
            && self.accepts_later.take()
        {
            waker.wake_by_ref();
        }
    }

    /// Who closes his peers and never extracts does not keep their descriptors.
    fn forget_ended(&self) {
        let ended: Vec<_> = {
            let links = self.links.borrow();
            let over = links.iter().filter(|(_, link)| link.is_over());
            over.map(|(number, link)| (number, link.clone())).collect()
        };
        for (number, link) in ended {
            self.forget(number, &link);
        }
    }

    fn forget_stranger(&self, link: &Rc<Link>) {
        let mut strangers = self.strangers.borrow_mut();
        strangers.retain(|stranger| !Rc::ptr_eq(stranger, link));
    }

    /// Starts the handler of a message.
    fn begin(&self, link: &Rc<Link>, message: &Rc<Message>) {
        self.driver.did_something();
        self.announce(link);
        let incoming = Incoming::new(link.clone(), message.clone());
        match self.handlers.find(message.handler()) {
            Some(handler) => self.driver.handle(message.class(), || {
                self.handlers.start(&*handler, incoming, message.class());
            }),
            None => {
                drop(incoming);
                link.say(Frame::Refused {
                    handler: message.handler(),
                });
            }
        }
    }

    /// Once for each that has greeted.
    #[inline]
    fn announce(&self, link: &Rc<Link>) {
        if link.announced.get() || !link.receive.borrow().is_greeted() {
            return;
        }
        link.announced.set(true);
        self.forget_stranger(link);
        self.driver.did_something();
        let call = self.on_arrival.borrow().clone();
        if let Some(call) = call {
            call(Peer::new(link.clone()));
        }
    }

    fn accept(&self) {
        let Some((listener, alarm, waker)) = &self.listener else {
            return;
        };
        alarm.looked_at();
        let task = Context::from_waker(waker);
        // Then those who greet are heard, before too many strangers drive them out.
        for _ in 0..MOST_STRANGERS / 4 {
            match listener.poll_accept(&task) {
                Poll::Ready(Ok((stream, address))) => {
                    if let Ok(link) = self.add(stream, address) {
                        self.note_stranger(link);
                    }
                }
                // One that is gone already.
                Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                // Too few descriptors.
                Poll::Ready(Err(_)) => return self.accept_later(waker),
                Poll::Pending => return,
            }
        }
        waker.wake_by_ref();
    }

    /// When a peer has gone, with the next that comes, or soon: others of the process may have closed theirs.
    fn accept_later(&self, waker: &Waker) {
        if self.accepts_later.replace(true) {
            return;
        }
        let (waits, waker) = (self.accepts_later.clone(), waker.clone());
        Tasks::new(&self.handlers).spawn(async move {
            let slept = run::sleep(ACCEPT_PAUSE).await;
            if slept.is_ok() && waits.take() {
                waker.wake();
            }
            Ok(())
        });
    }

    /// Connections that never greet are closed when there are too many.
    fn note_stranger(&self, link: Rc<Link>) {
        let mut strangers = self.strangers.borrow_mut();
        strangers.retain(|link| !link.has_ended() && !link.receive.borrow().is_greeted());
        strangers.push(link);
        let oldest = (strangers.len() > MOST_STRANGERS).then(|| strangers.remove(0));
        drop(strangers);
        if let Some(oldest) = oldest {
            oldest.fail(MessageError::PeerGone);
        }
    }
}
