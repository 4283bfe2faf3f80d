//! UCX's own ping-pong (tag matching) over its shared memory. The two ends find each other by TCP.

use std::fmt::Write;

use crate::compare::bout::Bout;
use crate::compare::duel::Stop;
use crate::compare::figure::median;
use crate::compare::stage::Ran;

/// As many as NetPIPE makes. Of these the middle one counts: now and then one shows a time that no
/// machine could make, for its clock is that of the CPU it happens to be on.
const TRIALS: usize = 3;

/// Seconds one way for each size, and the run.
pub fn times(bout: &Bout, sizes: &[u64], repeats: f64) -> Result<(Vec<f64>, Ran), String> {
    let file = bout.stage.fresh("ucx");
    std::fs::write(&file, batch(sizes, repeats))
        .map_err(|error| format!("{}: {error}", file.display()))?;
    // All of its shared memory, and nothing else: it would take TCP otherwise where that seems better.
    let shared_memory = |mut command: std::process::Command| {
        command.arg(&file).env("UCX_TLS", "shm,self");
        command
    };
    let server = shared_memory(bout.server("ucx_perftest", "-p {port} -b")?);
    let client = bout.client("ucx_perftest", "127.0.0.1 -p {port} -f -v -b")?;
    let ran = bout.fight(server, shared_memory(client), Stop::Itself)?;
    let times: Option<Vec<f64>> = sizes.iter().map(|size| parse(&ran.output, *size)).collect();
    Ok((times.ok_or("ucx_perftest left a size out")?, ran))
}

/// Its batch file: a name, and the options, for each test.
fn batch(sizes: &[u64], repeats: f64) -> String {
    let mut text = String::new();
    for size in sizes.iter().flat_map(|size| [size; TRIALS]) {
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "{size} -t tag_lat -s {size} -n {repeats} -w {repeats}"
        );
    }
    text
}

/// Seconds of the middle trial: the fifth field of lines that begin with the name of the test.
fn parse(text: &str, size: u64) -> Option<f64> {
    let name = size.to_string();
    let trials = text.lines().filter_map(|line| {
        let mut fields = line.split(',');
        (fields.next()? == name).then_some(())?;
        fields.nth(3)?.trim().parse::<f64>().ok()
    });
    let micros = median(trials);
    micros.is_finite().then_some(micros / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_output() {
        let text = include_str!("recorded/ucx.csv");
        assert_eq!(parse(text, 64), Some(0.666 / 1e6));
        assert_eq!(parse(text, 4096), Some(1.962 / 1e6));
        assert_eq!(parse(text, 1000), None);
    }

    #[test]
    fn a_batch() {
        let batch = batch(&[1, 8], 20.0);
        assert_eq!(batch.lines().count(), 2 * TRIALS);
        assert!(batch.starts_with("1 -t tag_lat -s 1 -n 20 -w 20\n"));
    }
}
