//! The differential tester's command; see `tests::differ`.
//!
//! ```text
//! differ run [--seed N] [--programs N] [--minutes M] [--jobs N] [--chaos N] [--mode MODE] [--family tcp|unix|both] [--without WORD,WORD...] [--hand-over] [--keep FOLDER] [--go-on] [--actor PROGRAM]
//! differ replay FILE [--mode MODE] [--times N] [--actor PROGRAM]
//! differ show [--seed N] [--family tcp|unix|both] [--hand-over]
//! ```

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tests::differ::actor;
use tests::differ::campaign::{self, Case, Plan, Summary};
use tests::differ::compare::{Judge, Verdict};
use tests::differ::generate::{self, Family};
use tests::differ::mode::Mode;
use tests::differ::program::Program;

const USAGE: &str = "differ run [--seed N] [--programs N] [--minutes M] [--jobs N] [--chaos N] [--mode MODE] [--family tcp|unix|both] [--without WORD,WORD...] [--hand-over] [--keep FOLDER] [--go-on] [--actor PROGRAM]
differ replay FILE [--mode MODE] [--times N] [--actor PROGRAM]
differ show [--seed N] [--family tcp|unix|both] [--hand-over]
MODE is kernel, both, a-only or b-only, then any of ,chaos=N ,ring=BYTES ,frugal ,awake ,eager ,uring";

/// A program is reported on after so many.
const OFTEN: u64 = 50;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.first().is_some_and(|word| word == "actor") {
        actor::main(&words[1..]);
    }
    match Options::parse(&words).and_then(|options| command(&options)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(problem) => {
            eprintln!("differ: {problem}\n{USAGE}");
            ExitCode::from(2)
        }
    }
}

struct Options {
    words: Vec<String>,
    values: HashMap<String, String>,
}

impl Options {
    fn parse(words: &[String]) -> Result<Self, String> {
        let mut options = Self {
            words: Vec::new(),
            values: HashMap::new(),
        };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match word.strip_prefix("--") {
                Some(key @ ("go-on" | "hand-over")) => {
                    options.values.insert(key.to_owned(), String::new());
                }
                Some(key) => {
                    let value = words
                        .next()
                        .ok_or_else(|| format!("{word} wants a value"))?;
                    options.values.insert(key.to_owned(), value.clone());
                }
                None => options.words.push(word.clone()),
            }
        }
        Ok(options)
    }

    fn get<T: FromStr>(&self, key: &str) -> Result<Option<T>, String> {
        let value = self.values.get(key);
        value
            .map(|value| {
                value
                    .parse()
                    .map_err(|_| format!("--{key} cannot be {value:?}"))
            })
            .transpose()
    }
}

fn command(options: &Options) -> Result<bool, String> {
    let words: Vec<&str> = options.words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["run"] => run(options),
        ["replay", file] => replay(options, Path::new(file)),
        ["show"] => {
            let seed = options.get("seed")?.unwrap_or(1);
            for family in families(options)? {
                let program =
                    generate::program(seed, family, options.values.contains_key("hand-over"));
                print!("# {family}\n{program}");
            }
            Ok(true)
        }
        _ => Err("no such command".to_owned()),
    }
}

fn families(options: &Options) -> Result<Vec<Family>, String> {
    let word: String = options.get("family")?.unwrap_or_else(|| "both".to_owned());
    generate::families(&word).ok_or_else(|| format!("--family cannot be {word:?}"))
}

/// Who makes the calls: this program, or another one that can be an actor (`tests/programs/go/actor`).
fn actor_path(options: &Options) -> Result<PathBuf, String> {
    let own = || std::env::current_exe().expect("the path of this program");
    Ok(options.get("actor")?.unwrap_or_else(own))
}

fn run(options: &Options) -> Result<bool, String> {
    let chaos = options.get("chaos")?.unwrap_or(0);
    let minutes: Option<f64> = options.get("minutes")?;
    let programs = options.get("programs")?;
    let plan = Plan {
        seed: options
            .get("seed")?
            .unwrap_or_else(|| u64::from(std::process::id()) << 20),
        families: families(options)?,
        programs: programs.unwrap_or(if minutes.is_some() { u64::MAX } else { 1000 }),
        time: minutes.map_or(Duration::MAX / 4, |minutes| {
            Duration::from_secs_f64(minutes * 60.0)
        }),
        modes: options
            .get("mode")?
            .map_or_else(|| Mode::all(chaos), |mode: Mode| vec![mode]),
        without: options
            .get("without")?
            .map_or_else(Vec::new, |calls: String| {
                calls.split(',').map(str::to_owned).collect()
            }),
        jobs: options
            .get("jobs")?
            .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from)),
        shrink: Duration::from_secs(options.get("shrink")?.unwrap_or(60)),
        hand_over: options.values.contains_key("hand-over"),
        go_on: options.values.contains_key("go-on"),
        actor: actor_path(options)?,
    };
    let keep: Option<PathBuf> = options.get("keep")?;
    println!("from seed {}", plan.seed);
    let told = AtomicU64::new(0);
    let summary = campaign::run(&plan, &|summary, case| {
        if let Some(case) = case {
            report(case, keep.as_deref());
        } else if summary.programs >= told.load(Ordering::Relaxed) + OFTEN {
            told.store(summary.programs, Ordering::Relaxed);
            print_summary(summary);
        }
    });
    print_summary(&summary);
    if summary.undetermined > 0 {
        println!("undetermined: {:?}", summary.odd_seeds);
    }
    Ok(summary.cases.is_empty())
}

fn print_summary(summary: &Summary) {
    println!(
        "{} programs, {} undetermined, {} differ; rings in {} of {} accelerated, {} bytes",
        summary.programs,
        summary.undetermined,
        summary.cases.len(),
        summary.on_rings,
        summary.accelerated,
        summary.ring_bytes
    );
}

/// Prints a case as the file that replays it.
fn report(case: &Case, keep: Option<&Path>) {
    let text = case.text();
    println!("---- differs\n{text}----");
    for line in case.complaints.lines().take(4) {
        println!("{line}");
    }
    if let Some(folder) = keep {
        let file = folder.join(match case.family {
            Family::Tcp => format!("seed-{}.txt", case.seed),
            Family::Unix => format!("seed-{}-unix.txt", case.seed),
        });
        fs::create_dir_all(folder)
            .and_then(|()| fs::write(&file, &text))
            .unwrap_or_else(|error| eprintln!("{file:?}: {error}"));
    }
}

fn replay(options: &Options, file: &Path) -> Result<bool, String> {
    let text = fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let program: Program = text.parse()?;
    let mode = options.get("mode")?.unwrap_or_else(Mode::both);
    let judge = Judge::new(actor_path(options)?);
    let mut same = true;
    for _ in 0..options.get("times")?.unwrap_or(1) {
        match judge.compare(&program, &mode) {
            Verdict::Differs(difference) => {
                same = false;
                println!(
                    "step {}:\n  kernel: {}\n  ulsock: {}",
                    difference.step + 1,
                    difference.kernel,
                    difference.ours
                );
            }
            verdict => println!("{verdict:?}"),
        }
    }
    let outcomes = [Mode::kernel(), mode].map(|mode| judge.run(&program, &mode));
    for (index, step) in program
        .steps
        .iter()
        .map(ToString::to_string)
        .chain(["end".to_owned()])
        .enumerate()
    {
        println!(
            "{step}\n    kernel: {}\n    ulsock: {}",
            outcomes[0].get(index).map_or("", |text| text),
            outcomes[1].get(index).map_or("", |text| text)
        );
    }
    print!("{}", judge.take_complaints());
    Ok(same)
}
