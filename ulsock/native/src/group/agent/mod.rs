//! The group's own thread: it finds the other members by their names, has a message link to each, and does all that is not
//! reading and writing rings.

mod again;
mod feeds;
mod hear;
mod islands;
mod link;
mod meet;
mod state;

use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use super::error::GroupError;
use super::shared::{Note, Shared, lock};
use crate::message::{Endpoint, MessageError};
use crate::names::{Names, Registration, Subscription};
use crate::run::{Loop, spawn};
use crate::share::Deposit;
use crate::timer::Timer;

use again::Again;
use state::Agent;

/// Who leaves does not wait longer for those who do not listen.
const FAREWELL: Duration = Duration::from_secs(1);

/// If names cannot be heard just now, for want of a descriptor.
const DEAF: Duration = Duration::from_secs(1);

/// Until the program lets go of the group. `tell`s when it has begun, or why not.
pub fn run(
    shared: Arc<Shared>,
    names: &Names,
    service: &str,
    number: u32,
    deposit: Option<Deposit>,
    tell: &dyn Fn(Result<(), GroupError>),
) {
    let ticket = deposit.as_ref().map(|deposit| deposit.ticket().to_bytes());
    match begin(&shared, names, service, number) {
        Err(error) => tell(Err(error)),
        Ok(mut begun) => {
            let agent = Agent::new(shared, number, ticket, begun.endpoint, begun.again);
            tell(Ok(()));
            let (events, registration) = (begun.events, begun.registration);
            begun.run.block_on(live(agent, events, registration));
        }
    }
}

/// What can fail.
struct Begun {
    run: Loop,
    endpoint: Endpoint,
    events: Subscription,
    registration: Registration,
    again: Again,
}

fn begin(shared: &Shared, names: &Names, service: &str, number: u32) -> Result<Begun, GroupError> {
    let mut run = Loop::new()?;
    let again = Again::new(run.block_on(async { Timer::new() })?);
    let events = names.subscribe(service, 0..=u32::MAX)?;
    let endpoint = Endpoint::bind(shared.options.address)?;
    let address = endpoint.local_addr().ok_or(GroupError::Ended)?;
    let registration = names.register(service, number, address)?;
    Ok(Begun {
        run,
        endpoint,
        events,
        registration,
        again,
    })
}

async fn live(agent: Rc<Agent>, mut events: Subscription, registration: Registration) {
    let server = agent.clone();
    drop(spawn(async move { server.endpoint.serve().await }));
    let listener = agent.clone();
    drop(spawn(poll_fn(move |task| {
        listen(&listener, task, &mut events)
    })));
    while !work(&agent).await {}
    agent.leaves.set(true);
    drop(registration);
    farewell(&agent).await;
}

/// Hears names, and tries again what has not succeeded.
fn listen(agent: &Rc<Agent>, task: &mut Context<'_>, events: &mut Subscription) -> Poll<()> {
    loop {
        while let Poll::Ready(event) = events.poll_event(task) {
            match event {
                Ok(event) => agent.named(event),
                Err(_) => {
                    agent.again.at(Instant::now() + DEAF);
                    break;
                }
            }
        }
        if agent.again.poll(task).is_pending() {
            return Poll::Pending;
        }
        agent.try_again();
    }
}

/// What the program's threads have left to do. Whether it has let go of the group.
async fn work(agent: &Agent) -> bool {
    let notes = poll_fn(|task| agent.shared.poll_nudged(task)).await;
    let mut is_over = false;
    for note in notes {
        match note {
            Note::PutOut(number) => {
                if let Some(link) = agent.member(number) {
                    link.peer.fail(MessageError::PeerGone);
                }
            }
            Note::Done { number, slot } => {
                slot.into_iter().for_each(|slot| agent.free_slot(slot));
                let is_gone = agent.member(number).is_none();
                if is_gone {
                    agent.feeds.borrow_mut().remove(&number);
                }
            }
            Note::End => is_over = true,
        }
    }
    for (sender, feed) in &mut *agent.feeds.borrow_mut() {
        if let (Some(at), Some(link)) = (feed.news(), agent.member(*sender)) {
            link.say_taken(at);
        }
    }
    let relays = agent.islands.borrow().relays();
    for link in relays.into_iter().filter_map(|relay| agent.member(relay)) {
        link.wake_writer();
    }
    is_over
}

/// Tells all that this member leaves, after what it has sent, and waits until they have heard it.
async fn farewell(agent: &Agent) {
    let end = lock(&agent.shared.seats).tail();
    let all: Vec<_> = agent.members.borrow().values().cloned().collect();
    all.iter().for_each(|link| link.say_farewell(end));
    let until = Instant::now() + FAREWELL;
    let Some(mut timer) = agent.again.end() else {
        return;
    };
    for link in all {
        let mut gone = std::pin::pin!(link.peer.gone());
        poll_fn(|task| match timer.poll_until(task, until) {
            Ok(Poll::Pending) => gone.as_mut().poll(task).map(drop),
            _ => Poll::Ready(()),
        })
        .await;
    }
}
