//! Runs each step in a separate process, so that memory left by one step does not count for the next.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;
use std::process::{Command, Stdio};

/// The first argument of such a process.
pub(crate) const CHILD: &str = "child";

/// Figures by name, one for each round.
pub(crate) type Figures = BTreeMap<String, Vec<f64>>;

/// Runs step `step` on the vault in `folder`, `count` entries in `shape`, in another process.
pub(crate) fn run(
    step: &str,
    shape: &str,
    count: usize,
    folder: &Path,
) -> Result<Figures, Box<dyn Error>> {
    let output = Command::new(std::env::current_exe()?)
        .args([CHILD, step, shape, &count.to_string()])
        .arg(folder)
        .stderr(Stdio::inherit())
        .output()?;
    if !output.status.success() {
        return Err(format!("{step} of {count} entries: {}", output.status).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// Does what `run` asked for, and prints the figures.
pub(crate) fn serve(words: &[String]) -> Result<(), Box<dyn Error>> {
    let [step, shape, count, folder] = words else {
        return Err("a step, a shape, a count and a folder".into());
    };
    // Before the choice of providers, whose buffers the allocator keeps for a while.
    let empty = crate::memory::resident()?;
    crate::vault::settle();
    let mut figures = crate::names::step(step, shape, count.parse()?, Path::new(folder))?;
    figures.insert("memory_empty".to_owned(), vec![empty]);
    println!("{}", serde_json::to_string(&figures)?);
    Ok(())
}
