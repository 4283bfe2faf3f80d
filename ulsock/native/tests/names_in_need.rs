//! Names, where a process has no descriptors left for a while.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ulsock_native::TcpListener;
use ulsock_native::message::{Endpoint, MessageError};
use ulsock_native::names::{Event, NameError, Names, Registration, Subscription};
use ulsock_native::run::{block_on, sleep, spawn};

/// What follows is of the whole process: one test at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How many descriptors this process can have; how many it could have before.
fn limit_descriptors(to: u64) -> u64 {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: no other test runs meanwhile; the structure is read and written.
    unsafe {
        libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit);
        let before = limit.rlim_cur;
        limit.rlim_cur = to;
        libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
        before
    }
}

/// Runs without any descriptor to be had.
fn in_need<T>(call: impl FnOnce() -> T) -> T {
    let before = limit_descriptors(3);
    let done = call();
    limit_descriptors(before);
    done
}

/// Runs with so many descriptors to be had, of a limit that is small: those below it are taken.
fn with_only<T>(left: usize, call: impl FnOnce() -> T) -> T {
    let before = limit_descriptors(1024);
    let file = std::fs::File::open("/dev/null");
    let mut taken: Vec<_> = file.into_iter().collect();
    while let Some(Ok(another)) = taken.first().map(std::fs::File::try_clone) {
        taken.push(another);
    }
    taken.truncate(taken.len().saturating_sub(left));
    let done = call();
    drop(taken);
    limit_descriptors(before);
    done
}

struct World {
    names: Names,
    service: String,
    listener: TcpListener,
}

fn world(what: &str) -> World {
    World {
        names: Names::open().expect("names"),
        service: format!("need.{what}.{}", std::process::id()),
        listener: TcpListener::bind("127.0.0.1:0").expect("a listener"),
    }
}

impl World {
    fn register(&self, instance: u32) -> Result<Registration, NameError> {
        let address = self.listener.local_addr().expect("an address");
        self.names.register(&self.service, instance, address)
    }

    fn subscribe(&self) -> Result<Subscription, NameError> {
        self.names.subscribe(&self.service, 0..=9)
    }
}

fn next(events: &mut Subscription, within: u64) -> Option<Event> {
    let event = events.next_within(Duration::from_millis(within));
    event.expect("a subscription")
}

/// Who cannot look does not take the living for dead, and hears of what has happened meanwhile.
#[test]
fn the_living_do_not_disappear() {
    let _alone = alone();
    let world = world("living");
    let stays = world.register(1).expect("a name");
    let goes = world.register(2).expect("a name");
    let mut events = world.subscribe().expect("a subscription");
    for place in [stays.place(), goes.place()] {
        assert_eq!(next(&mut events, 5000), Some(Event::Appeared(place)));
    }
    let gone = goes.place();
    in_need(|| {
        drop(goes);
        assert_eq!(next(&mut events, 300), None);
    });
    let disappeared = Some(Event::Disappeared(gone));
    assert_eq!(next(&mut events, 5000), disappeared);
    assert_eq!(next(&mut events, 300), None);
}

/// Every call says what is missing: nobody is not found, or taken for nobody.
#[test]
fn calls_say_what_is_missing() {
    let _alone = alone();
    let world = world("calls");
    let there = world.register(1).expect("a name");
    let lacks = |error: NameError| assert!(matches!(error, NameError::NoDescriptors), "{error:?}");
    in_need(|| {
        lacks(Names::open().unwrap_err());
        lacks(world.register(1).unwrap_err());
        lacks(world.register(2).unwrap_err());
        lacks(world.subscribe().unwrap_err());
        lacks(world.names.find(&world.service, 1).unwrap_err());
        lacks(world.names.find(&world.service, 2).unwrap_err());
        lacks(world.names.find_any(&world.service).unwrap_err());
        lacks(world.names.range(&world.service, 0..=9).unwrap_err());
    });
    // What failed has left nothing, and nothing of it is counted.
    assert_eq!(
        world.names.range(&world.service, 0..=9).expect("names"),
        [there.place()]
    );
    let taken = world.register(1).unwrap_err();
    assert!(matches!(taken, NameError::Taken { .. }), "{taken:?}");
    let second = world.register(2).expect("a name");
    let mut events = world.subscribe().expect("a subscription");
    for place in [there.place(), second.place()] {
        assert_eq!(next(&mut events, 5000), Some(Event::Appeared(place)));
    }
}

const HELLO: u16 = 1;

async fn until(holds: impl Fn() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(20));
        sleep(Duration::from_millis(1)).await.expect("a timer");
    }
}

/// Who is connected goes on, who wants to connect is told what is missing, and can do so later.
#[test]
fn messages_by_name() {
    const COUNT: usize = 2000;
    let _alone = alone();
    let world = world("messages");
    let done = block_on(async {
        let server = Endpoint::bind("127.0.0.1:0").expect("an endpoint");
        let heard = Rc::new(Cell::new(0));
        let counted = heard.clone();
        server.handle(HELLO, move |message| {
            counted.set(counted.get() + 1);
            message.skip()
        });
        let address = server.local_addr().expect("an address");
        let name = world.names.register(&world.service, 1, address);
        let _name = name.expect("a name");
        drop(spawn(async move { server.serve().await }));

        let place = world.names.find(&world.service, 1).expect("a place");
        let client = Endpoint::new();
        let peer = client.connect(place.address).await.expect("a peer");
        peer.send(HELLO, &[]).await.expect("sent");
        until(|| heard.get() == 1).await;
        let before = limit_descriptors(3);
        for _ in 0..COUNT {
            peer.send(HELLO, &[7; 300]).await.expect("sent");
        }
        let refused = client.connect(place.address).await.unwrap_err();
        let MessageError::Connection(error) = refused else {
            panic!("{refused:?}");
        };
        assert_eq!(error.raw_os_error(), Some(libc::EMFILE));
        limit_descriptors(before);
        let second = client.connect(place.address).await.expect("a peer");
        second.send(HELLO, &[]).await.expect("sent");
        until(|| heard.get() == COUNT + 2).await;
    });
    done.expect("a loop");
}

/// A connection that came when there was no descriptor for it waits for one, and not for the next connection.
#[test]
fn who_could_not_be_accepted_is_later() {
    let _alone = alone();
    let done = block_on(async {
        let server = Endpoint::bind("127.0.0.1:0").expect("an endpoint");
        let heard = Rc::new(Cell::new(0));
        let counted = heard.clone();
        server.handle(HELLO, move |message| {
            counted.set(counted.get() + 1);
            message.skip()
        });
        let address = server.local_addr().expect("an address");
        let client = Endpoint::new();
        let peer = client.connect(address).await.expect("a peer");
        let before = limit_descriptors(3);
        drop(spawn(async move { server.serve().await }));
        peer.send(HELLO, &[]).await.expect("sent");
        sleep(Duration::from_millis(150)).await.expect("a timer");
        assert_eq!(heard.get(), 0);
        limit_descriptors(before);
        until(|| heard.get() == 1).await;
    });
    done.expect("a loop");
}

/// However few descriptors there are, a subscription says so, or tells of everybody, if later.
#[test]
fn a_subscription_with_hardly_any() {
    let _alone = alone();
    let world = world("hardly");
    let there = world.register(1).expect("a name");
    let mut subscribed = 0;
    for left in 0..12 {
        let begun = with_only(left, || {
            let begun = world.subscribe();
            begun.map(|mut events| {
                // Nor while it looks again.
                let appeared = with_only(0, || next(&mut events, 200));
                (events, appeared)
            })
        });
        match begun {
            Err(error) => assert!(matches!(error, NameError::NoDescriptors), "{error:?}"),
            Ok((mut events, appeared)) => {
                subscribed += 1;
                let appeared = appeared.or_else(|| next(&mut events, 5000));
                assert_eq!(appeared, Some(Event::Appeared(there.place())), "{left}");
                assert_eq!(next(&mut events, 0), None);
            }
        }
    }
    assert!((1..12).contains(&subscribed), "{subscribed}");
}
