//! Content for transactions, and content that replaces the whole content of a file.
//!
//! Takes   the steps of a transaction, with content of any length up to `TRANSACTION_CONTENT_BYTES_MAX`
//! Gives   all of the steps carried out, or none
//! Never   leaves a name behind when it is interrupted: content that does not fit a message waits in files without names

use strongroom_filesystem::Durability;

use crate::limits::{
    TRANSACTION_BYTES_MAX, TRANSACTION_CONTENT_BYTES_MAX, TRANSACTION_OPERATIONS_MAX,
};
use crate::owner::client::Unanswered;
use crate::owner::port::Port;
use crate::path::VaultPath;
use crate::request::Request;
use crate::request::frame::Bytes;
use crate::request::steps::{Step, Steps};
use crate::{Error, File, Result, Vault};

/// How often content is brought to the next owner when one goes.
const STAGINGS_MAX: usize = 4;

/// The mode of a file that holds content on its way; nobody can name it.
const STAGED_MODE: u32 = 0o600;

/// The mode of a new file that `replace` makes.
const NEW_MODE: u32 = 0o644;

impl Vault {
    /// Makes a file with `content`, or replaces all that a file holds, at once: whoever looks, and whoever opens the vault after a
    /// power cut, finds all of the old content or all of the new. The file stays the same node: its mode, owner, other names and
    /// extended attributes stay. Follows a symlink at the end.
    ///
    /// With `Durability::OnReturn` the new content is durable then. A transaction of one operation; costs more than `write`, so
    /// that many small files that nobody needs yet are better written by that.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let place = tempfile::tempdir()?;
    /// # let folder = place.path().join("vault");
    /// # use strongroom::{CreateOptions, Vault};
    /// # let vault = Vault::create(&folder, CreateOptions::new())?.vault;
    /// use strongroom::filesystem::Durability;
    ///
    /// vault.replace("/settings", "colour = blue", Durability::OnReturn)?;
    /// vault.replace("/settings", "colour = green", Durability::OnReturn)?;
    /// assert_eq!(vault.read_to_string("/settings")?, "colour = green");
    /// # vault.close()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `IsADirectory`, `NotFound`, `NoSpace`, `QuotaExceeded`; then the old content is there. `TransactionTooLarge` above
    /// `TRANSACTION_CONTENT_BYTES_MAX`: then write a new file and `rename` it over the old one. After `OwnerGone`, and with
    /// `Durability::OnReturn` after an error of the disk, one of the two is there.
    pub fn replace(
        &self,
        path: impl VaultPath,
        content: impl AsRef<[u8]>,
        durability: Durability,
    ) -> Result<()> {
        let step = Step::WriteFile {
            path: Bytes(path.path_bytes()),
            mode: NEW_MODE,
            content: Bytes(content.as_ref()),
        };
        let replaced = self.carry_out(vec![step], durability);
        replaced.map_err(|error| match error {
            Error::Operation { error, .. } => *error,
            other => other,
        })
    }

    /// Carries out `steps`, all or none.
    pub(crate) fn carry_out(&self, steps: Vec<Step<'_>>, durability: Durability) -> Result<()> {
        let durable = durability == Durability::OnReturn;
        let to_stage = to_stage(&steps)?;
        if to_stage.is_empty() {
            let steps = Steps(steps);
            return self.ask_for(&Request::Transaction { steps, durable });
        }
        for _ in 0..STAGINGS_MAX {
            // Nothing of the list is done before it is asked for: what an owner takes with it is written once more.
            let (port, steps, staged) = match self.stage(&steps, &to_stage) {
                Err(Error::OwnerGone) => continue,
                staged => staged?,
            };
            let steps = Steps(steps);
            let asked = port.ask(&Request::Transaction { steps, durable });
            drop(staged);
            match asked {
                Ok(response) => return response.try_into(),
                Err(Unanswered::Failed(error)) => return Err(error),
                Err(Unanswered::Unknown) => return Err(Error::OwnerGone),
                Err(Unanswered::NotDone) => self.succeed(&port)?,
            }
        }
        Err(Error::OwnerGone)
    }

    /// Writes the contents of the steps `to_stage` to files without names; gives the steps that refer to those, which must stay
    /// open until the steps were carried out, and where they are open.
    fn stage<'a>(
        &self,
        steps: &[Step<'a>],
        to_stage: &[usize],
    ) -> Result<(Port, Vec<Step<'a>>, Vec<File>)> {
        let mut steps = steps.to_vec();
        let mut staged = Vec::with_capacity(to_stage.len());
        for index in to_stage {
            let file = self.unnamed_file("/", STAGED_MODE)?;
            file.write_all_at(steps[*index].content(), 0)?;
            let source = file.at().1;
            steps[*index] = match steps[*index].clone() {
                Step::WriteFile { path, mode, .. } => Step::WriteFileFrom { path, mode, source },
                Step::WriteAt { path, offset, .. } => Step::WriteAtFrom {
                    path,
                    offset,
                    source,
                },
                other => other,
            };
            staged.push(file);
        }
        let port = staged
            .first()
            .map_or_else(|| self.port(), |file| file.at().0);
        match staged.iter().all(|file| file.at().0.is_same(&port)) {
            true => Ok((port, steps, staged)),
            false => Err(Error::OwnerGone),
        }
    }
}

/// Which steps have content that does not fit the message: the longest, until the rest does.
///
/// # Errors
/// `TransactionTooLarge`.
fn to_stage(steps: &[Step<'_>]) -> Result<Vec<usize>> {
    let content: usize = steps.iter().map(|step| step.content().len()).sum();
    let mut bytes: usize = steps.iter().map(Step::bytes).sum();
    if steps.len() > TRANSACTION_OPERATIONS_MAX
        || bytes - content > TRANSACTION_BYTES_MAX
        || content > TRANSACTION_CONTENT_BYTES_MAX
    {
        return Err(Error::TransactionTooLarge);
    }
    let mut longest_last: Vec<usize> = (0..steps.len()).collect();
    longest_last.sort_by_key(|index| steps[*index].content().len());
    let mut chosen = Vec::new();
    while bytes > TRANSACTION_BYTES_MAX
        && let Some(index) = longest_last.pop()
    {
        bytes -= steps[index].content().len();
        chosen.push(index);
    }
    Ok(chosen)
}
