//! `ulsock doctor`: what ulsock would do here, with which settings, and why it would not; and the same of one program,
//! or of a process that runs. It only looks and tries; what is wrong it names with its cure.

mod directory;
mod findings;
mod process;
pub mod program;
mod rules;
mod settings;
pub mod trial;

use std::ffi::OsString;

use crate::probe;
use clap::Args;
use rendezvous::config::Config;

use crate::failure::{Failure, Outcome};
use crate::install::{Install, LIBRARY};
use crate::preload;
use findings::Findings;

#[derive(Args)]
#[command(override_usage = "ulsock doctor [--json] [PID | -- PROGRAM [ARGUMENTS]...]")]
pub struct DoctorOptions {
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
    /// A process that runs, by its number: is it accelerated, and why not. A word that is no number is a program
    #[arg(value_name = "PID", conflicts_with = "program")]
    subject: Option<OsString>,
    /// A program: what of it would be accelerated, and why not. It is not run
    #[arg(last = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

pub fn run(options: &DoctorOptions) -> Outcome {
    let number = |word: &OsString| word.to_str()?.parse().ok();
    let pid: Option<u32> = options.subject.as_ref().and_then(number);
    let program = match &options.subject {
        Some(word) => std::slice::from_ref(word),
        None => &options.program,
    };
    Ok(match (pid, program.first()) {
        (Some(pid), _) => {
            let mut findings = Findings::of(format!("process {pid}"), options.json);
            process::examine(&mut findings, pid);
            let verdict = of_process(findings.problems);
            findings.conclude(&verdict)
        }
        (None, Some(name)) => {
            let name = os::plain::plain(name.as_encoded_bytes());
            let mut findings = Findings::of(format!("program {name}"), options.json);
            program::examine(&mut findings, program);
            run_directory(&mut findings, Config::from_env().ok().as_ref());
            library(&mut findings);
            let verdict = of_program(findings.problems);
            findings.conclude(&verdict)
        }
        (None, None) => of_host(options.json),
    })
}

fn of_host(in_json: bool) -> std::process::ExitCode {
    let name = rustix::system::uname();
    let subject = format!(
        "ulsock {} on {} {}",
        env!("CARGO_PKG_VERSION"),
        name.nodename().to_string_lossy(),
        name.machine().to_string_lossy()
    );
    let mut findings = Findings::of(subject, in_json);
    let config = settings(&mut findings);
    run_directory(&mut findings, config.as_ref());
    host(&mut findings);
    let library = library(&mut findings);
    self_test(&mut findings, config.as_ref(), library);
    let verdict = verdict(findings.problems);
    findings.conclude(&verdict)
}

fn of_program(problems: usize) -> String {
    match problems {
        0 => "It would be accelerated: start it with `ulsock run -- PROGRAM`, and the programs at the other ends, too."
            .to_owned(),
        _ => format!("It would not be accelerated, or not as wanted. {}", lines(problems)),
    }
}

fn of_process(problems: usize) -> String {
    match problems {
        0 => "ulsock is in it. A connection that is on kernel TCP has its reason above; the manual says what can be done."
            .to_owned(),
        _ => format!("It is not accelerated, or not as wanted. {}", lines(problems)),
    }
}

/// The settings, if they can be used.
fn settings(findings: &mut Findings) -> Option<Config> {
    findings.title("Settings");
    match Config::from_env() {
        Ok(config) => {
            findings.note(&settings::table(&config));
            rules::file(findings, &config);
            if !config.enabled {
                let off = "everything stays on kernel TCP: unset it, or set it to 1";
                findings.check("ULSOCK=0", Err(off));
            }
            Some(config)
        }
        Err(error) => {
            findings.check("variable", Err(error));
            None
        }
    }
}

/// That of the settings; of the default ones where these cannot be used.
fn run_directory(findings: &mut Findings, config: Option<&Config>) {
    findings.title("Run directory");
    let default = Config::default();
    let path = &config.unwrap_or(&default).run_dir;
    findings.check(&path.display().to_string(), directory::look(path));
    if let Some(text) = directory::host_daemon(path) {
        findings.note(&format!("the host's nicd: {text}"));
    }
}

fn host(findings: &mut Findings) {
    findings.title("Host");
    for probe in probe::all() {
        findings.check(probe.what, probe.found);
    }
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    findings.note(&match cpus {
        1 => "1 CPU: two ends give way to each other, and sleep".to_owned(),
        _ => format!("{cpus} CPUs: up to {cpus} waiters of a user spin at the same time"),
    });
}

fn library(findings: &mut Findings) -> Option<std::ffi::OsString> {
    findings.title("Library");
    let found = || {
        let install = Install::locate()?;
        install.prepare(&[LIBRARY])?;
        let path = install.library()?;
        let preload = preload::with_library(&path, std::env::var_os("LD_PRELOAD"))?;
        Ok::<_, Failure>((path, preload))
    };
    match found() {
        Ok((path, preload)) => {
            findings.check(LIBRARY, Ok::<_, Failure>(path.display().to_string()));
            Some(preload)
        }
        Err(failure) => {
            findings.check(LIBRARY, Err(failure));
            None
        }
    }
}

/// Tries it, unless it is known that this cannot work.
fn self_test(
    findings: &mut Findings,
    config: Option<&Config>,
    library: Option<std::ffi::OsString>,
) {
    findings.title("Self-test: two processes, a connection, round trips of 64 B (median)");
    let (Some(_), Some(library)) = (config.filter(|config| config.enabled), library) else {
        findings.note("not made: the problems above come first");
        return;
    };
    let kernel = trial::on_kernel();
    let ours = trial::on_ulsock(&library);
    let times = match (&kernel, &ours) {
        (Ok(kernel), Ok(ours)) => Some(kernel.us / ours.us),
        _ => None,
    };
    findings.check("on kernel TCP", kernel.map(|trial| trial.text()));
    findings.check("on ulsock", ours.map(|trial| trial.text()));
    if let Some(times) = times {
        findings.note(&speed(times));
    }
}

fn speed(times: f64) -> String {
    let busy = match times < 1.0 {
        true => ": are the CPUs busy? `ulsock compare` measures with more care",
        false => "",
    };
    format!("ulsock was {times:.1} times as fast as kernel TCP{busy}")
}

fn verdict(problems: usize) -> String {
    match problems {
        0 => "All is well: TCP connections between programs under `ulsock run` on this host leave \
              kernel TCP."
            .to_owned(),
        problems => lines(problems),
    }
}

fn lines(problems: usize) -> String {
    match problems {
        1 => "One problem: see the line that says BAD.".to_owned(),
        several => format!("{several} problems: see the lines that say BAD."),
    }
}
