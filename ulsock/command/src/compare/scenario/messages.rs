//! Round trips of a program that is written for ulsock (`benches/src/bin/messages.rs`), beside the ping-pongs of others.

use serde::Deserialize;

use crate::compare::bout::Bout;
use crate::compare::duel::Stop;
use crate::compare::stage::Ran;
use crate::compare::usage::End;

#[derive(Deserialize)]
struct Printed {
    mean_us: f64,
}

/// Seconds one way for each size, and the last run with the CPU time of all.
pub fn times(bout: &Bout, sizes: &[u64]) -> Result<(Vec<f64>, Ran), String> {
    let (mut times, mut last) = (Vec::new(), None::<Ran>);
    for size in sizes {
        let server = bout.own(End::Server, "messages", "server {host}:{port}")?;
        let seconds = bout.seconds() / sizes.len() as f64;
        let words = format!("client {{host}}:{{port}} --size {size} --seconds {seconds}");
        let client = bout.own(End::Client, "messages", &words)?;
        let mut ran = bout.fight(server, client, Stop::Itself)?;
        let printed: Printed =
            serde_json::from_str(&ran.output).map_err(|error| format!("client: {error}"))?;
        times.push(printed.mean_us / 2e6);
        ran.cpu += last.map_or_else(Default::default, |last| last.cpu);
        last = Some(ran);
    }
    Ok((times, last.ok_or("no sizes")?))
}
