//! `completions` and `man`: generated from the same source as `--help`.

use std::fs;
use std::io::Write;
use std::path::Path;

use clap::CommandFactory;

use crate::arguments::Arguments;
use crate::arguments::tool::{Completions, Man};
use crate::terminal::failure::{About, Result};
use crate::terminal::printable::show_path;

/// Prints a completion script.
pub(crate) fn completions(arguments: &Completions) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut shown(), "strongroom", &mut script);
    Ok(std::io::stdout().write_all(&script)?)
}

/// The command line without what `--help` does not list, which the generator of completions would list.
fn shown() -> clap::Command {
    let all = Arguments::command();
    let shown = all.get_subcommands().filter(|one| !one.is_hide_set());
    clap::Command::new("strongroom")
        .version(env!("CARGO_PKG_VERSION"))
        .disable_help_subcommand(true)
        .args(all.get_arguments().cloned())
        .subcommands(shown.cloned())
}

/// Writes one page for the command and one for each of its subcommands.
pub(crate) fn manual(arguments: &Man) -> Result<()> {
    fs::create_dir_all(&arguments.folder).about(show_path(&arguments.folder))?;
    let mut command = Arguments::command();
    command.build();
    pages(&command, &arguments.folder)
}

fn pages(command: &clap::Command, folder: &Path) -> Result<()> {
    let mut page = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut page)?;
    // What `build` made of the names on the way: `strongroom-key-add`.
    let name = command.get_display_name().unwrap_or(command.get_name());
    let path = folder.join(format!("{name}.1"));
    fs::write(&path, page).about(show_path(&path))?;
    for subcommand in command
        .get_subcommands()
        .filter(|subcommand| !subcommand.is_hide_set())
    {
        pages(subcommand, folder)?;
    }
    Ok(())
}
