//! What a disk lost, in words: the requests, and what their blocks hold.

use std::collections::HashMap;
use std::sync::Arc;

use block_dev::{Entry as LogEntry, FrontEnd, Image, Kind as Request, MemfdDisk};
use brief::counted;
use crash_images::rebuild;
use local_fs::{Mounted, Variant, block_names};
use pace_rules::disk::{self, Relaxation};

use super::BlockFindings;
use crate::error::Result;
use crate::program::scratch;

/// So many lost writes are listed.
const LOST_LISTED_MAX: usize = 8;

/// After so many flushes it is looked what was lost.
const NAMED_BEHIND_FLUSHES: usize = 4;

impl BlockFindings<'_> {
    /// The requests that a disk lost, and the one that is torn.
    pub(super) fn lost_words(&self, node: usize, state: &disk::State) -> Vec<String> {
        let entries = self.recorded(node).log.entries();
        let places = self.log(node).lost(state);
        let torn = match state.relaxation {
            Relaxation::Torn {
                place, from, to, ..
            } => Some((place, from, to)),
            _ => None,
        };
        let listed = places.iter().copied().chain(torn.map(|(place, ..)| place));
        let names = self.names(node, state.position, listed.take(LOST_LISTED_MAX));
        let words = |place| request_words(place, &entries[place].kind, names.get(&place));
        let shown = places.iter().take(LOST_LISTED_MAX);
        let mut lost: Vec<_> = shown.map(|place| words(*place)).collect();
        lost.extend(torn.map(|(place, from, to)| {
            let words = words(place);
            format!("{words}, of which bytes {from} to {to} are lost")
        }));
        if places.len() > LOST_LISTED_MAX {
            lost.push(format!("and {} more", places.len() - LOST_LISTED_MAX));
        }
        lost
    }

    /// What the blocks of some writes hold, by the file system's own debugger: after the crash, or
    /// after one of the next flushes, or in the end. It is for people: where nobody can tell there
    /// is no name.
    fn names(
        &self,
        node: usize,
        position: usize,
        places: impl Iterator<Item = usize>,
    ) -> HashMap<usize, String> {
        let entries = self.recorded(node).log.entries();
        let mut unnamed: Vec<_> = places.collect();
        let mut names = HashMap::new();
        for position in named_at(position, entries) {
            if unnamed.is_empty() {
                break;
            }
            let ranges: Vec<_> = unnamed
                .iter()
                .map(|place| entries[*place].range())
                .collect();
            let found = self.names_at(node, position, &ranges).unwrap_or_default();
            names.extend(
                unnamed
                    .iter()
                    .copied()
                    .zip(found)
                    .filter_map(|(place, name)| Some((place, name?))),
            );
            unnamed.retain(|place| !names.contains_key(place));
        }
        names
    }

    /// What the disk holds at these places if it kept everything up to a position and recovered.
    fn names_at(
        &self,
        node: usize,
        position: usize,
        places: &[(u64, u64)],
    ) -> Result<Vec<Option<String>>> {
        let recorded = self.recorded(node);
        let variant = Variant::for_programs(&recorded.file_system)?;
        if variant.file_system.debugger.is_none() || !self.mounts {
            return Ok(Vec::new());
        }
        let mut image = Image::new(Arc::clone(&recorded.base));
        rebuild(
            &mut image,
            &recorded.log,
            self.log(node),
            &disk::State {
                position,
                relaxation: Relaxation::Prefix,
            },
        );
        let mut disk = MemfdDisk::new(image.base())?;
        disk.load(&image)?;
        let scratch = scratch()?;
        Mounted::new(&variant, disk.device(), scratch.path())?.unmount()?;
        Ok(block_names(&variant, &disk.content_path(), places)?)
    }
}

/// A request to a disk, with what its blocks hold if that is known.
fn request_words(place: usize, request: &Request, name: Option<&String>) -> String {
    let (what, offset, length) = match request {
        Request::Write { offset, length, .. } => ("write", *offset, u64::from(*length)),
        Request::Discard { offset, length } => ("discard", *offset, *length),
        _ => return format!("request {place}"),
    };
    let bytes = counted(length, "byte");
    let name = name.map_or_else(String::new, |name| format!(", {name}"));
    format!("{what} {place}: {bytes} at {offset}{name}")
}

/// Where in the log of a disk names are looked for: at a position, after the next flushes, and at the
/// end.
fn named_at(position: usize, entries: &[LogEntry]) -> impl Iterator<Item = usize> {
    let later = entries.iter().enumerate().skip(position);
    let flushes =
        later.filter(|(_, entry)| matches!(entry.kind, Request::Flush | Request::FuaFlush));
    let flushes = flushes.map(|(place, _)| place + 1);
    std::iter::once(position)
        .chain(flushes.take(NAMED_BEHIND_FLUSHES))
        .chain(Some(entries.len()))
}
