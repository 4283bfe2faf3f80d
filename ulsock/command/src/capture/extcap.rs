//! `ulsock extcap`: the side of Wireshark. It runs every program in its folder `extcap` and asks what interfaces there are,
//! and then for a capture into a named pipe (Wireshark's doc/README.extcap).

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

use super::output::PcapngOutput;
use super::pcapng::LINK_TYPE;
use super::{End, SNAPLEN, follow};
use crate::descriptors;
use crate::failure::{Failure, Outcome};
use crate::preload;
use crate::print;
use crate::selection::Selection;

const INTERFACE: &str = "ulsock";

/// What it may be called with; one of the first four says what is wanted.
#[derive(Args)]
pub struct ExtcapOptions {
    #[arg(long)]
    extcap_interfaces: bool,
    #[arg(long)]
    extcap_dlts: bool,
    #[arg(long)]
    extcap_config: bool,
    #[arg(long)]
    capture: bool,
    #[arg(long)]
    extcap_version: Option<String>,
    #[arg(long)]
    extcap_interface: Option<String>,
    #[arg(long)]
    extcap_capture_filter: Option<String>,
    #[arg(long)]
    fifo: Option<PathBuf>,
    #[command(flatten)]
    selection: Selection,
}

pub fn run(options: &ExtcapOptions) -> Outcome {
    if options.extcap_interfaces {
        return say(&interfaces());
    }
    if options.extcap_interface.as_deref() != Some(INTERFACE) {
        return Err(Failure::setup("this is for Wireshark; see ulsock capture"));
    }
    if options.extcap_dlts {
        return say(&format!(
            "dlt {{number={LINK_TYPE}}}{{name=RAW}}{{display=Raw IP}}\n"
        ));
    }
    if options.extcap_config {
        return say(CONFIGURATION);
    }
    match (options.capture, &options.fifo) {
        (true, Some(fifo)) => capture(options, fifo),
        _ => Err(Failure::setup("this is for Wireshark; see ulsock capture")),
    }
}

fn say(text: &str) -> Outcome {
    print::all(text)?;
    Ok(ExitCode::SUCCESS)
}

fn interfaces() -> String {
    let version = env!("CARGO_PKG_VERSION");
    format!(
        "extcap {{version={version}}}{{display=ulsock}}\n\
         interface {{value={INTERFACE}}}{{display=ulsock: connections in rings}}\n"
    )
}

/// The options of [`Selection`], as Wireshark shows them.
const CONFIGURATION: &str = "\
arg {number=0}{call=--program}{display=Program}{tooltip=Only programs with this in their name}{type=string}
arg {number=1}{call=--pid}{display=Process}{tooltip=Only this process}{type=unsigned}
arg {number=2}{call=--address}{display=Address}{tooltip=Only connections with this IP address at either end}{type=string}
arg {number=3}{call=--port}{display=Port}{tooltip=Only connections with this port at either end}{type=unsigned}
";

/// Wireshark ends it by a signal, or by closing its end.
fn capture(options: &ExtcapOptions, fifo: &Path) -> Outcome {
    let filter = options.extcap_capture_filter.as_deref();
    if filter.is_some_and(|filter| !filter.trim().is_empty()) {
        return Err(Failure::setup(
            "ulsock knows no capture filters: choose programs and ports in the options of its interface, or use a display filter",
        ));
    }
    descriptors::have_all();
    let reach = options.selection.reach(&preload::configuration()?)?;
    let failed = |error| Failure::work(format!("cannot capture into {}: {error}", fifo.display()));
    let end = End::by_signals().map_err(failed)?;
    let fifo = OpenOptions::new().write(true).open(fifo).map_err(failed)?;
    let mut output = PcapngOutput::begin(fifo, SNAPLEN).map_err(failed)?;
    // It takes every word for an error.
    let say = |_: &str| {};
    follow::follow(&reach, &options.selection, &mut output, say, &end).map_err(failed)?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{CommandFactory, Parser};

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        options: ExtcapOptions,
    }

    #[test]
    fn what_wireshark_offers_exists() {
        let known: Vec<String> = Cli::command()
            .get_arguments()
            .filter_map(|it| it.get_long().map(|long| format!("--{long}")))
            .collect();
        for line in CONFIGURATION.lines() {
            let call = line.split("{call=").nth(1).unwrap();
            let call = call.split('}').next().unwrap();
            assert!(known.iter().any(|it| it == call), "{call} in {known:?}");
        }
    }
}
