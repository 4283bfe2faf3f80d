//! With messages: a border row is a message to the neighbour's handler for that side.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Instant;

use ulsock_native::message::{Endpoint, Incoming, MessageError, Peer};
use ulsock_native::run::block_on;

use crate::band::Band;
use crate::{Outcome, Plan};

/// To the band below: its upper neighbour's last row; and the other way round.
const FROM_ABOVE: u16 = 1;
const FROM_BELOW: u16 = 2;

/// Rows that have come: a neighbour can be a step ahead.
type Rows = Rc<RefCell<VecDeque<Vec<u8>>>>;

fn receive(endpoint: &Endpoint, number: u16, len: usize) -> Rows {
    let rows = Rows::default();
    let all = rows.clone();
    endpoint.handle(number, move |mut message: Incoming| {
        let all = all.clone();
        async move {
            let mut row = vec![0; len];
            message.read_exact(&mut row).await?;
            all.borrow_mut().push_back(row);
            Ok(())
        }
    });
    rows
}

async fn next(endpoint: &Endpoint, rows: &Rows) -> Result<Vec<u8>, MessageError> {
    loop {
        if let Some(row) = rows.borrow_mut().pop_front() {
            return Ok(row);
        }
        endpoint.extract(usize::MAX).await?;
    }
}

/// Each band connects to the one below it, which may not listen yet.
async fn connect_below(endpoint: &Endpoint, plan: &Plan, rank: usize) -> Outcome<Peer> {
    let port = plan.port + u16::try_from(rank + 1)?;
    let below = SocketAddr::from(([127, 0, 0, 1], port));
    loop {
        match endpoint.connect(below).await {
            Ok(peer) => return Ok(peer),
            Err(_) => std::thread::sleep(std::time::Duration::from_millis(5)),
        }
    }
}

pub fn run(plan: &Plan, rank: usize) -> Outcome<(f64, f64)> {
    let mut band = Band::new(plan, rank);
    let endpoint = Endpoint::bind(("127.0.0.1", plan.port + u16::try_from(rank)?))?;
    let len = plan.size * 8;
    let (above, below) = (
        receive(&endpoint, FROM_ABOVE, len),
        receive(&endpoint, FROM_BELOW, len),
    );
    let upper = Rc::new(RefCell::new(None));
    let arrived = upper.clone();
    endpoint.on_arrival(move |peer| *arrived.borrow_mut() = Some(peer));
    block_on(async {
        let lower = match band.has_lower() {
            true => Some(connect_below(&endpoint, plan, rank).await?),
            false => None,
        };
        while band.has_upper() && upper.borrow().is_none() {
            endpoint.extract(usize::MAX).await?;
        }
        let upper = upper.take();
        let begun = Instant::now();
        for _ in 0..plan.steps {
            if let Some(upper) = &upper {
                upper.send(FROM_BELOW, &band.first()).await?;
            }
            if let Some(lower) = &lower {
                lower.send(FROM_ABOVE, &band.last()).await?;
            }
            if upper.is_some() {
                band.set_upper(&next(&endpoint, &above).await?);
            }
            if lower.is_some() {
                band.set_lower(&next(&endpoint, &below).await?);
            }
            band.step();
        }
        Ok((band.heat(), begun.elapsed().as_secs_f64()))
    })?
}
