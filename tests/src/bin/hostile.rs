//! A hostile peer, its victims, and the judge; see `tests::hostile`.
//!
//! ```text
//! hostile run [--seed N] [--cases N] [--only NAME] [--go-on]
//! hostile list
//! ```

use std::process::ExitCode;

use tests::args::Args;
use tests::hostile::campaign::{self, Plan};
use tests::hostile::cases::{self, CASES};
use tests::hostile::scene::{FAILED, Scene, hold, say};
use tests::hostile::{accomplice, honest, victim};

const USAGE: &str = "hostile run [--seed N] [--cases N] [--only NAME] [--go-on]\nhostile list";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.first().map(String::as_str) {
        Some("run") => return run(&words[1..]),
        Some("list") => CASES.iter().for_each(|case| println!("{}", case.name)),
        Some("victim") => victim::main(&Args::from_env()),
        Some("honest") => honest::main(&Args::from_env()),
        Some("accomplice") => accomplice::main(&Args::from_env()),
        Some("attack") => attack(&Args::from_env()),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// One attack, for the harness.
fn attack(args: &Args) {
    let case = cases::named(&args.get::<String>("case")).expect("a case of this name");
    let mut scene = Scene::new(args);
    if !case.stays_root {
        scene.change_user();
    }
    match (case.run)(&mut scene) {
        Ok(()) => hold(),
        Err(why) => say(&format!("{FAILED}{why}")),
    }
}

fn run(words: &[String]) -> ExitCode {
    let Some(plan) = plan(words) else {
        eprintln!("{USAGE}");
        return ExitCode::FAILURE;
    };
    println!("from seed {}, {} attacks", plan.seed, plan.cases);
    let found = campaign::run(&plan, &mut |attack, verdict| {
        let what = match verdict {
            Ok(cost) => cost.to_string(),
            Err(why) => format!("FOUND: {why}"),
        };
        println!("{attack}: {what}");
    });
    println!("{found} found");
    match found {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

/// `None` for words that mean nothing.
fn plan(words: &[String]) -> Option<Plan> {
    let mut plan = Plan {
        seed: 0,
        cases: CASES.len(),
        only: String::new(),
        go_on: false,
    };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--go-on" => plan.go_on = true,
            "--only" => plan.only = words.next()?.clone(),
            "--seed" => plan.seed = words.next()?.parse().ok()?,
            "--cases" => plan.cases = words.next()?.parse().ok()?,
            _ => return None,
        }
    }
    Some(plan)
}
