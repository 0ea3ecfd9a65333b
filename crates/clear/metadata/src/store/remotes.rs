//! Writes the rows about the remotes of a vault.
//!
//! Takes   remotes, and the objects that their logs name
//! Gives   rows in the current transaction (`tables/remotes.rs`)
//! Never   connects to a remote; gives a remote the number of one that was forgotten
//! Spec    spec/4-metadata.md, 4.14

use crate::error::{Error, Result};
use crate::limits::{NAME_BYTES_MAX, VALUE_BYTES_MAX};
use crate::store::transaction::{Transaction, check_len, check_numbers};
use crate::tables::columns::key;
use crate::tables::marked::mark;
use crate::tables::remotes::{Published, PublishedAs, Remote};
use crate::tables::sql::Statement;

/// The setting that has the greatest number of a remote that was forgotten, little-endian; absent or empty: none.      [4.14]
const FORGOTTEN: &str = "remote_forgotten";

impl Transaction<'_> {
    /// Stores a remote, a new one if its number is 0; gives the number.
    ///
    /// # Errors
    /// `Error::Invalid` for a name that another has, or values beyond their bounds; `Error::Damaged` as `remove_remote`.
    pub fn put_remote(&mut self, remote: &Remote) -> Result<u64> {
        check_len(
            remote.name.len(),
            NAME_BYTES_MAX,
            "the name of a remote is too long",
        )?;
        check_len(
            remote.state.len(),
            VALUE_BYTES_MAX,
            "the state of a remote is too long",
        )?;
        let others = self.remotes()?;
        if others
            .iter()
            .any(|other| other.name == remote.name && other.number != remote.number)
        {
            return Err(Error::Invalid("another remote has that name"));
        }
        let number = match remote.number {
            0 => {
                let greatest = others.iter().map(|other| other.number).max();
                self.forgotten_remote()?.max(greatest.unwrap_or(0)) + 1
            }
            number => number,
        };
        check_numbers(&[number])?;
        self.change(remote.state.len(), |writer| {
            writer.run(
                Statement::RemotePut,
                (
                    key(number),
                    &*remote.name,
                    &remote.id[..],
                    mark(&remote.state),
                ),
            )?;
            Ok(number)
        })
    }

    /// The greatest number of a remote that was forgotten; 0 if there is none.
    fn forgotten_remote(&self) -> Result<u64> {
        let value = self.setting(FORGOTTEN)?.unwrap_or_default();
        if value.is_empty() {
            return Ok(0);
        }
        let number = <[u8; 8]>::try_from(value.as_slice()).map(u64::from_le_bytes);
        let number = number
            .ok()
            .filter(|number| check_numbers(&[*number]).is_ok());
        number.ok_or(Error::Damaged(
            "the number of a forgotten remote is invalid",
        ))
    }

    /// Forgets the remote of that number, and what it has. No other remote gets that number: whoever still has it means this one.
    ///
    /// # Errors
    /// `Error::Damaged` if the number of the last one that was forgotten is invalid.
    pub fn remove_remote(&mut self, number: u64) -> Result<()> {
        let is_there = self.remotes()?.iter().any(|one| one.number == number);
        if is_there && self.forgotten_remote()? < number {
            self.put_setting(FORGOTTEN, &number.to_le_bytes())?;
        }
        self.change(0, |writer| {
            writer.run(Statement::PublishedClear, [key(number)])?;
            writer.run(Statement::RemoteRemove, [key(number)])?;
            Ok(())
        })
    }

    /// Notes how the remote of that number has `item`.
    pub fn put_published(&mut self, remote: u64, item: Published, how: PublishedAs) -> Result<()> {
        self.change(64, |writer| {
            writer.run(
                Statement::PublishedPut,
                (
                    key(remote),
                    item.encode(),
                    &how.hash[..],
                    key(how.publication),
                ),
            )?;
            Ok(())
        })
    }

    /// Notes that the remote of that number has not `item` any more.
    pub fn remove_published(&mut self, remote: u64, item: Published) -> Result<()> {
        self.change(0, |writer| {
            writer.run(Statement::PublishedRemove, (key(remote), item.encode()))?;
            Ok(())
        })
    }
}
