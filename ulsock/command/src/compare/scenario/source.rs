//! Programs of ours that the command has as source. They are compiled in the work folder, at their first
//! use, because their compilers and libraries are not everywhere.

use std::path::PathBuf;
use std::process::Command;

use crate::compare::programs::find_or_say;
use crate::compare::stage::Stage;

pub struct Source {
    /// The name of the source file, and what it contains.
    pub file: &'static str,
    pub text: &'static str,
    pub compiler: &'static str,
    /// What the compiler is told; it runs in the folder of the file.
    pub words: &'static str,
    /// The file that it makes.
    pub made: &'static str,
}

impl Source {
    /// The path of the compiled program.
    pub fn compiled(&self, stage: &Stage) -> Result<PathBuf, String> {
        let made = stage.folder().join(self.made);
        if !made.exists() {
            let source = stage.folder().join(self.file);
            std::fs::write(&source, self.text)
                .map_err(|error| format!("{}: {error}", source.display()))?;
            let mut compiler = Command::new(find_or_say(self.compiler)?);
            compiler.args(self.words.split_whitespace());
            stage.prepare(compiler.current_dir(stage.folder()))?;
        }
        Ok(made)
    }
}
