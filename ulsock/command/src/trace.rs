//! `ulsock trace`: runs a program, records its socket calls, and says where the time went: a timeline for Perfetto, and a
//! summary in words on stderr. What the program prints, its exit status and its signals stay its own.

mod advice;
mod child;
mod figures;
mod model;
mod recordings;
mod timeline;
mod words;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use os::spin::Clock;

use crate::doctor;
use crate::failure::{Failure, Outcome};
use crate::install::{Install, LIBRARY, TRACE_LIBRARY};
use crate::preload;
use child::Child;
use figures::Figures;
use model::Run;
use recordings::Recordings;

#[derive(Args)]
#[command(override_usage = "ulsock trace [OPTIONS] -- PROGRAM [ARGUMENTS]...")]
pub struct TraceOptions {
    /// Where the timeline goes [default: ulsock-trace-PROGRAM-PID.json]
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    output: Option<PathBuf>,
    /// Print the summary, and write no timeline
    #[arg(long, conflicts_with = "output")]
    summary_only: bool,
    /// How much is recorded of each program that is started; what comes later is only counted
    #[arg(long, value_name = "MIB", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=4096))]
    size: u32,
    /// The program and its arguments
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "PROGRAM",
        value_hint = ValueHint::CommandWithArguments
    )]
    program: Vec<OsString>,
}

pub fn run(options: TraceOptions) -> Outcome {
    preload::check_configuration(&[])?;
    let install = Install::locate()?;
    install.prepare(&[LIBRARY, TRACE_LIBRARY])?;
    let preloaded = preload::with_recorder(
        &install.find(TRACE_LIBRARY)?,
        &install.library()?,
        std::env::var_os("LD_PRELOAD"),
    )?;
    let program = options.program.first().cloned().unwrap_or_default();
    if let Some(why) = doctor::program::obstacle(&program) {
        eprintln!(
            "ulsock: nothing will be recorded of {}: {why}",
            shown(&program)
        );
    }
    let recordings = Recordings::new(options.size)?;
    let child = Child::start(&options.program, &preloaded, &recordings)?;
    let pid = child.id();
    let status = child.wait()?;
    let ended = Clock::now().nanos();
    // The program's status is what counts, whatever becomes of its recording.
    if let Err(failure) = tell(&options, &program, pid, &recordings, ended) {
        eprintln!("ulsock: {failure}");
    }
    drop(recordings);
    Ok(child::end_as(status))
}

fn shown(program: &OsStr) -> String {
    os::plain::plain(program.as_encoded_bytes())
}

fn tell(
    options: &TraceOptions,
    program: &OsStr,
    pid: u32,
    recordings: &Recordings,
    ended: u64,
) -> Result<(), Failure> {
    let lives = |process| process == pid || Path::new(&format!("/proc/{process}")).exists();
    let run = Run::of(recordings.read()?, ended, lives);
    // Whatever becomes of the timeline, this is not lost. Nobody needs to read it.
    let text = words::summary(&run, &Figures::of(&run));
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
    if options.summary_only || run.is_empty() {
        return Ok(());
    }
    let (path, file) = match &options.output {
        Some(path) => (path.clone(), File::create(path)),
        None => {
            let path = default_name(program, pid);
            let file = File::create_new(&path);
            (path, file)
        }
    };
    let shown = path.display();
    let written = file.and_then(|file| write(file, &run));
    written.map_err(|error| Failure::work(format!("cannot write {shown}: {error}")))?;
    let text = format!("\nTimeline: {shown} (open it in https://ui.perfetto.dev)\n");
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
    Ok(())
}

fn default_name(program: &OsStr, pid: u32) -> PathBuf {
    let name = Path::new(program).file_name().unwrap_or(program);
    let mut file = OsString::from("ulsock-trace-");
    file.push(name);
    file.push(format!("-{pid}.json"));
    PathBuf::from(file)
}

fn write(file: File, run: &Run) -> std::io::Result<()> {
    let mut file = BufWriter::new(file);
    timeline::write(&mut file, run)?;
    file.flush()
}
