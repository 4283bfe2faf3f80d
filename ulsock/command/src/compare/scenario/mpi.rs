//! OpenMPI's mpirun with two processes: over TCP, on kernel TCP or on ulsock, and over shared memory.

use std::path::Path;

use crate::compare::bout::Bout;
use crate::compare::contender::Contender;
use crate::compare::cores::Placement;
use crate::compare::programs::find_or_say;
use crate::compare::stage::{How, Ran};
use crate::compare::usage::End;

/// mpirun with `program` as both processes. Only they run on ulsock, not mpirun itself.
pub fn run(bout: &Bout, program: &Path, words: &str) -> Result<Ran, String> {
    let (how, stage) = (bout.how, bout.stage);
    let bare = How {
        contender: Contender::Kernel,
        ..*how
    };
    let mut command = stage.command(&bare, End::Client, find_or_say("mpirun")?);
    // It refuses root unless it is told twice; what it leaves behind goes with our folder.
    command.env("OMPI_ALLOW_RUN_AS_ROOT", "1");
    command.env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    command
        .arg("--oversubscribe")
        .args(transport(how.contender).split_whitespace());
    command
        .args(["--mca", "orte_tmpdir_base"])
        .arg(stage.folder());
    command.args(["--bind-to", binding(how)]);
    for (number, end) in [End::Server, End::Client].into_iter().enumerate() {
        if number > 0 {
            command.arg(":");
        }
        command.args(["-np", "1"]);
        if how.contender == Contender::Ulsock {
            for (name, value) in stage.variables(end) {
                let mut setting = std::ffi::OsString::from(name);
                setting.push("=");
                setting.push(value);
                command.arg("-x").arg(setting);
            }
        }
        command.arg(program).args(words.split_whitespace());
    }
    stage.solo(how, command)
}

fn transport(contender: Contender) -> &'static str {
    match contender {
        Contender::Mpi { single_copy: true } => "--mca pml ob1 --mca btl vader,self",
        Contender::Mpi { single_copy: false } => {
            "--mca pml ob1 --mca btl vader,self --mca btl_vader_single_copy_mechanism none"
        }
        _ => "--mca pml ob1 --mca btl tcp,self --mca btl_tcp_if_include lo",
    }
}

/// Over shared memory each process has a core: that is what mpirun does by itself.
fn binding(how: &How) -> &'static str {
    match (how.contender, how.placement) {
        (Contender::Mpi { .. }, _) | (_, Placement::TwoCores { .. }) => "core",
        _ => "none",
    }
}
