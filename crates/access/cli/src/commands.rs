//! One file for each group of commands; this file only calls the function of each command.

mod account;
mod background;
mod backup;
mod bench;
mod clone;
mod conflicts;
mod continuous;
mod copy;
mod dates;
mod deposit;
pub(crate) mod descriptors;
mod device;
mod diff;
mod erase;
mod evict;
mod find_content;
mod generate;
mod get;
mod hash;
mod history;
mod inbox;
mod info;
mod init;
mod keep;
mod key;
mod local;
mod making;
mod mirror;
mod mount;
mod opening;
mod pair;
mod placing;
mod put;
mod recover;
mod remote;
mod remote_status;
mod remove;
mod repair;
mod retention;
mod rotate;
mod secret;
mod serve;
mod show;
mod targets;
mod tune;
mod tune_chart;
mod umount;
mod unchanged;
mod unlock;
mod verify;
mod walk;
mod whole;

use crate::arguments::Command;
use crate::arguments::common::Whole;
use crate::terminal::exit_code::ExitCode;
use crate::terminal::failure::Result;

/// Whether the command brings its own place to log to: nobody sees its standard error.
pub(crate) fn logs_to_file(command: &Command) -> bool {
    match command {
        Command::Mount(arguments) => arguments.daemon,
        Command::Unlock(arguments) => arguments.daemon,
        _ => false,
    }
}

/// Runs a command.
pub(crate) fn run(command: Command, verbosity: u8) -> Result<()> {
    match command {
        Command::Init(arguments) => init::init(&arguments),
        Command::Mount(arguments) => mount::mount(&arguments, verbosity),
        Command::Backup(arguments) => backup::backup(&arguments),
        Command::Remote(arguments) => remote::remote(&arguments.command),
        Command::Serve(arguments) => serve::serve(&arguments),
        Command::Inbox(arguments) => inbox::inbox(&arguments.command),
        Command::Deposit(arguments) => deposit::deposit(&arguments),
        Command::Pull(arguments) => remote::pull(&arguments),
        Command::Push(arguments) => remote::push(&arguments),
        Command::Evict(arguments) => evict::evict(&arguments),
        Command::Pin(arguments) => evict::pin(&arguments),
        Command::Unpin(arguments) => evict::unpin(&arguments),
        Command::Conflicts(arguments) => conflicts::conflicts(&arguments),
        Command::Clone(arguments) => clone::clone(&arguments),
        Command::Umount(arguments) => umount::umount(&arguments),
        Command::Unlock(arguments) => unlock::unlock(&arguments, verbosity),
        Command::Lock(arguments) => unlock::lock(&arguments),
        Command::Ls(arguments) => show::ls(&arguments),
        Command::Tree(arguments) => show::tree(&arguments),
        Command::Cat(arguments) => show::cat(&arguments),
        Command::Stat(arguments) => show::stat(&arguments),
        Command::Find(arguments) => show::find(&arguments),
        Command::Hash(arguments) => hash::hash(&arguments),
        Command::Put(arguments) => put::put(&arguments),
        Command::Get(arguments) => get::get(&arguments),
        Command::Cp(arguments) => copy::copy(&arguments),
        Command::Mv(arguments) => copy::rename(&arguments),
        Command::Rm(arguments) => remove::remove(&arguments),
        Command::Mkdir(arguments) => remove::make_directories(&arguments),
        Command::Info(arguments) => info::info(&arguments),
        Command::Df(arguments) => whole::space(&arguments),
        Command::Quota(arguments) => whole::quota(&arguments),
        Command::Compression(arguments) => whole::compression(&arguments),
        Command::Stats(arguments) => whole::counters(&arguments),
        Command::Check(Whole { vault, common }) => {
            verify::structure(&vault, &common, ExitCode::Damaged)
        }
        Command::Verify(arguments) => verify::verify(&arguments),
        Command::Repair(arguments) => repair::repair(&arguments),
        Command::Recover(arguments) => recover::recover(&arguments),
        Command::Sync(arguments) => remote::sync(&arguments),
        Command::Compact(arguments) => whole::compact(&arguments),
        Command::Bench(arguments) => bench::bench(&arguments),
        Command::Tune(arguments) => tune::tune(&arguments),
        Command::Key(arguments) => key::key(&arguments.command),
        Command::Device(arguments) => device::device(&arguments.command),
        Command::Snapshot(arguments) => history::snapshot(&arguments.command),
        Command::Log(arguments) => history::log(&arguments),
        Command::Diff(arguments) => diff::diff(&arguments),
        Command::Restore(arguments) => history::restore(&arguments),
        Command::Erase(arguments) => erase::erase(&arguments),
        Command::Completions(arguments) => generate::completions(&arguments),
        Command::Man(arguments) => generate::manual(&arguments),
    }
}
