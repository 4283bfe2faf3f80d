//! What a package needs and only the command itself can tell: a man page for each subcommand, completions
//! for shells, and the names of the files that an installation must have beside it. A hidden subcommand,
//! which `packaging/stage` calls, so that no list of subcommands or options is kept by hand.

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;

use crate::compare;
use crate::failure::{Failure, Outcome};
use crate::install::{LIBRARY, TRACE_LIBRARY};

pub const SUBCOMMAND: &str = "packaging-files";

const SHELLS: [Shell; 3] = [Shell::Bash, Shell::Zsh, Shell::Fish];

/// Writes `man/`, `completions/` and `private-files` into the folder.
pub fn run(folder: &Path, command: Command) -> Outcome {
    let failed = |error| Failure::work(format!("cannot write into {}: {error}", folder.display()));
    write(folder, &shown(&command)).map_err(failed)?;
    Ok(ExitCode::SUCCESS)
}

fn write(folder: &Path, command: &Command) -> io::Result<()> {
    let [pages, completions] = ["man", "completions"].map(|name| folder.join(name));
    fs::create_dir_all(&pages)?;
    fs::create_dir_all(&completions)?;
    for shell in SHELLS {
        clap_complete::generate_to(
            shell,
            &mut command.clone(),
            command.get_name(),
            &completions,
        )?;
    }
    let mut command = command.clone().disable_help_subcommand(true);
    command.build();
    write_pages(&pages, &command)?;
    let mut private = vec![LIBRARY, TRACE_LIBRARY];
    private.extend(compare::PROGRAMS);
    fs::write(folder.join("private-files"), private.join("\n") + "\n")
}

/// The command without its hidden subcommands: completions would offer them.
fn shown(command: &Command) -> Command {
    let visible = command.get_subcommands().filter(|it| !it.is_hide_set());
    Command::new(env!("CARGO_PKG_NAME"))
        .version(env!("CARGO_PKG_VERSION"))
        .about(command.get_about().cloned().unwrap_or_default())
        .subcommand_required(true)
        .subcommands(visible.cloned())
}

/// The page of a command and those of its subcommands, in section 1.
fn write_pages(folder: &Path, command: &Command) -> io::Result<()> {
    for subcommand in command.get_subcommands().filter(|it| !it.is_hide_set()) {
        write_pages(folder, subcommand)?;
    }
    let page = Man::new(command.clone())
        .source(concat!("ulsock ", env!("CARGO_PKG_VERSION")))
        .manual("ulsock");
    let mut file = fs::File::create(folder.join(page.get_filename()))?;
    page.render(&mut file)?;
    let is_root = command.get_name() == env!("CARGO_PKG_NAME");
    let others = if is_root { "" } else { ".BR ulsock (1),\n" };
    write!(file, ".SH \"SEE ALSO\"\n{others}.BR ulsock (7)\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn every_visible_subcommand_has_a_page_and_is_completed() {
        let folder = tempfile::tempdir().expect("a folder");
        let command = crate::Cli::command();
        write(folder.path(), &shown(&command)).expect("written");
        let read = |name: &str| {
            let path = folder.path().join(name);
            fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {error}"))
        };
        let completions = ["ulsock.bash", "_ulsock", "ulsock.fish"]
            .map(|name| read(&format!("completions/{name}")));
        for subcommand in command.get_subcommands() {
            let name = subcommand.get_name();
            let page = folder.path().join(format!("man/ulsock-{name}.1"));
            assert_eq!(page.exists(), !subcommand.is_hide_set(), "{name}");
            for text in &completions {
                assert_eq!(text.contains(name), !subcommand.is_hide_set(), "{name}");
            }
        }
        assert!(read("man/ulsock.1").contains("ulsock\\-nicd"));
        assert!(read("man/ulsock-nicd-key.1").contains("ulsock nicd key"));
        assert!(read("private-files").lines().any(|name| name == "pingpong"));
    }
}
