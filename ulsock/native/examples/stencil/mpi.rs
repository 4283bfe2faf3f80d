//! With MPI, if it is installed: `stencil.c` is the same program.

use std::process::Command;

use crate::{Outcome, Plan};

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/stencil/stencil.c");

pub fn run(plan: &Plan) -> Outcome<Option<(String, f64)>> {
    let program = std::env::temp_dir().join(format!("ulsock-stencil-{}", std::process::id()));
    let built = Command::new("mpicc")
        .args(["-O3", SOURCE, "-o"])
        .arg(&program)
        .status();
    if !built.is_ok_and(|status| status.success()) {
        println!("MPI: left out, for there is no mpicc");
        return Ok(None);
    }
    let numbers = [plan.size, plan.steps].map(|number| number.to_string());
    let ran = Command::new("mpirun")
        // It refuses root unless it is told twice.
        .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
        .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
        .args(["--oversubscribe", "-np", &plan.ranks.to_string()])
        .arg(&program)
        .args(numbers)
        .output();
    let _ = std::fs::remove_file(&program);
    let text = String::from_utf8(ran?.stdout)?;
    let (heat, seconds) = text.trim().split_once(' ').ok_or("mpirun has failed")?;
    Ok(Some((heat.to_owned(), seconds.parse()?)))
}
