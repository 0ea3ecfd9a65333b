//! What happens to the server of a history, if it has one: it is restarted, backed up, put back and checked.
//!
//! Takes   a history
//! Gives   the first violation of the rules (8) and (9) in the head of `sync.rs`
//! Never   puts a backup back while content is only at the server: restoring a server loses what only that server had

use strongroom::{GoOn, SyncReport};
use strongroom_remote::Remote;

use crate::sync::device::Device;
use crate::sync::history::{History, remote_at};

/// What a device says to whom a remote shows less than it has seen.
const NOTICED: &str = "this device saw a newer state of the remote";

/// The name of the newest publication; names of publications have the order of their numbers.
fn newest(remote: &dyn Remote) -> Result<String, String> {
    let listed = remote.list("publications");
    let listed = listed.map_err(|error| format!("(8): {error}"))?;
    let newest = listed.into_iter().map(|one| one.name).max();
    Ok(newest.unwrap_or_default())
}

impl History<'_> {
    fn members(&self) -> impl Iterator<Item = &Device> {
        self.devices.iter().filter(|device| device.is_member())
    }

    /// Before everything is judged: what the server acknowledged outlasts its process.
    pub(crate) fn restart_server(&self) -> Result<(), String> {
        match &self.server {
            Some(server) => server.restart().map_err(|why| format!("(8): {why}")),
            None => Ok(()),
        }
    }

    pub(crate) fn back_up_server(&mut self) -> Result<(), String> {
        let Some(server) = &self.server else {
            return Ok(());
        };
        server.back_up().map_err(|why| format!("(8): {why}"))?;
        self.story.tell("a backup of the server is made".to_owned());
        Ok(())
    }

    /// (8)
    pub(crate) fn check_server(&mut self) -> Result<(), String> {
        let Some(server) = &self.server else {
            return Ok(());
        };
        self.story.server_kills = server.kills();
        server.check().map_err(|why| format!("(8): {why}"))
    }

    /// Puts the server back to its backup, once all know everything, and moves all to a new, empty vault there. (9)
    pub(crate) fn put_server_back(&mut self) -> Result<(), String> {
        if self.server.is_none() || self.backup_at.is_none() {
            return Ok(());
        }
        self.settle()?;
        for device in self.members() {
            let back = device.vault().bring_back(None, &mut |_| GoOn::Yes);
            back.map_err(|error| format!("(1): device {}: {error}", device.number))?;
        }
        let known = newest(&*self.remote)?;
        if let Some(server) = &self.server {
            server.put_back().map_err(|why| format!("(9): {why}"))?;
        }
        self.check_server()?;
        let there = newest(&*self.remote)?;
        if there == known {
            self.story
                .tell("nothing was published after the backup".to_owned());
            return Ok(());
        }
        self.all_notice()?;
        match newest(&*self.remote)? {
            still if still == there => {}
            _ => return Err("(9): a device that noticed has published".to_owned()),
        }
        self.story
            .tell("the server was put back, and all noticed".to_owned());
        self.story.server_put_back += 1;
        self.move_to_new_vault()?;
        self.settle()?;
        self.judge()
    }

    /// No device syncs with a server that it knew in a newer state.
    fn all_notice(&self) -> Result<(), String> {
        for device in self.members() {
            let said = match device.sync() {
                Err(error) if error.to_string().contains(NOTICED) => continue,
                Err(error) => error.to_string(),
                Ok(report) if report == SyncReport::default() => "nothing".to_owned(),
                Ok(report) => format!("{report:?}"),
            };
            let number = device.number;
            return Err(format!(
                "(9): device {number} does not notice that the server was put back: {said}"
            ));
        }
        Ok(())
    }

    /// As the guide for servers says.
    fn move_to_new_vault(&mut self) -> Result<(), String> {
        let Some(server) = &self.server else {
            return Ok(());
        };
        let far = server.vault("history-again")?;
        self.address += "-again";
        let name = self.address.trim_start_matches("memory:").to_owned();
        (self.remote, self.line) = remote_at(&name, Some(&far))?;
        for device in self.members() {
            let added = device.add_remote_again(&self.address);
            added.map_err(|error| format!("(9): device {}: {error}", device.number))?;
        }
        Ok(())
    }
}
