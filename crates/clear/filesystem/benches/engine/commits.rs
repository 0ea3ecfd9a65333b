//! The time of a commit: one after each small change, alternating with a measurement of the disk beneath.

use std::error::Error;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Instant;

use strongroom_bench::Content;
use strongroom_filesystem::{Filesystem, InodeId, NodeKind};

use crate::process::Figures;
use crate::vault;

/// Changes of each kind. The 99th of a hundred is the third slowest.
const CHANGES: usize = 300;
const WARM_UP: usize = 20;
const PAGE: usize = 4096;
/// Pages of the file that is overwritten.
const PAGES: u64 = 256;

/// Adds seconds of each change to `figures`.
pub(crate) fn measure(
    filesystem: &Filesystem,
    directory: InodeId,
    folder: &Path,
    figures: &mut Figures,
) -> Result<(), Box<dyn Error>> {
    let mut content = Content::new(1);
    let log = vault::make(filesystem, directory, "log", NodeKind::File)?;
    let pages = vault::make(filesystem, directory, "pages", NodeKind::File)?;
    filesystem.write(pages, 0, content.take(PAGES as usize * PAGE))?;
    filesystem.sync()?;
    let beneath = File::create(folder.join("beneath"))?;
    beneath.write_all_at(content.take(PAGES as usize * PAGE), 0)?;
    beneath.sync_all()?;
    for number in 0..WARM_UP + CHANGES {
        let mut timed = |name: &str, work: &mut dyn FnMut() -> Result<(), Box<dyn Error>>| {
            let start = Instant::now();
            work()?;
            let seconds = start.elapsed().as_secs_f64();
            if number >= WARM_UP {
                figures.entry(name.to_owned()).or_default().push(seconds);
            }
            Ok::<_, Box<dyn Error>>(())
        };
        let place = content.random() % PAGES * PAGE as u64;
        let page = content.take(PAGE).to_vec();
        timed("commit_disk", &mut || {
            beneath.write_all_at(&page, place)?;
            Ok(beneath.sync_data()?)
        })?;
        timed("commit_create", &mut || {
            let name = format!("committed-{number}");
            vault::make(filesystem, directory, &name, NodeKind::File)?;
            Ok(filesystem.sync_inode(directory)?)
        })?;
        let page = content.take(PAGE);
        timed("commit_append", &mut || {
            filesystem.append(log, page)?;
            Ok(filesystem.sync_inode(log)?)
        })?;
        let page = content.take(PAGE);
        timed("commit_overwrite", &mut || {
            filesystem.write(pages, place, page)?;
            Ok(filesystem.sync_inode(pages)?)
        })?;
    }
    Ok(())
}
