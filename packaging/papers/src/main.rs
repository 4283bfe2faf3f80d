//! Writes what goes into packages beside the programs: ulsock(7), made from the manual; the components in the
//! programs as CycloneDX; and the notices of their licences. `packaging/release` calls it.
#![deny(unsafe_code)]

mod components;
mod manual;
mod notices;
mod page;
mod roff;
mod sbom;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use components::Components;

#[derive(Parser)]
#[command(version)]
enum Papers {
    /// ulsock(7), from the manual
    Page { manual: PathBuf, output: PathBuf },
    /// The components of packages of this workspace as CycloneDX 1.5 in JSON
    Sbom {
        /// When, as 2026-01-31T12:00:00Z
        #[arg(long)]
        time: String,
        #[arg(long)]
        output: PathBuf,
        #[arg(required = true)]
        packages: Vec<String>,
    },
    /// The licences of what other people have written in packages of this workspace
    Notices {
        #[arg(long)]
        output: PathBuf,
        #[arg(required = true)]
        packages: Vec<String>,
    },
}

fn main() -> ExitCode {
    match run(Papers::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("ulsock_papers: {why}");
            ExitCode::FAILURE
        }
    }
}

fn run(papers: Papers) -> Result<(), String> {
    match papers {
        Papers::Page { manual, output } => {
            let text = fs::read_to_string(&manual)
                .map_err(|error| format!("{}: {error}", manual.display()))?;
            let page = page::make(&text).map_err(|why| format!("{}: {why}", manual.display()))?;
            save(&output, &page)
        }
        Papers::Sbom {
            time,
            output,
            packages,
        } => {
            let components = Components::of(&packages)?;
            save(&output, &sbom::make(&components, &time))
        }
        Papers::Notices { output, packages } => {
            let components = Components::of(&packages)?;
            save(&output, &notices::make(&components)?)
        }
    }
}

fn save(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}
