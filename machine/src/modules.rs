//! Loads modules into the guest's kernel from a directory of the host's, as `depmod` left it.

use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::kmod::{ModuleInitFlags, finit_module};

use crate::error::{Context as _, Error, Result};

/// The modules of a directory with a `modules.dep`.
#[derive(Debug)]
pub(crate) struct Modules {
    directory: PathBuf,
    /// From a module's name to its file and those of the modules that it needs.
    files: HashMap<String, Vec<String>>,
}

impl Modules {
    /// Reads what there is for a kernel release in `directory`, which is that of the release
    /// itself or one above it.
    ///
    /// # Errors
    /// If there are no modules for it.
    pub(crate) fn find(directory: &Path, release: &str) -> Result<Self> {
        let candidates = [
            directory.join("lib/modules").join(release),
            directory.join(release),
            directory.to_owned(),
        ];
        let list = candidates.iter().find_map(|candidate| {
            let text = std::fs::read_to_string(candidate.join("modules.dep")).ok()?;
            Some((candidate.clone(), text))
        });
        let (directory, text) = list.ok_or_else(|| Error::NoModules {
            release: release.into(),
            directory: directory.into(),
        })?;
        Ok(Self {
            directory,
            files: parse(&text),
        })
    }

    /// Loads one and what it needs. It does not matter if it is loaded or built in already, nor if
    /// there is none: whoever needs it will say so.
    ///
    /// # Errors
    /// If the kernel refuses it.
    pub(crate) fn load(&self, name: &str) -> Result<()> {
        // The last one is needed by those before it.
        for file in self.files.get(name).into_iter().flatten().rev() {
            let path = self.directory.join(file);
            let module = File::open(&path).doing(|| format!("open {}", path.display()))?;
            match finit_module(&module, c"", ModuleInitFlags::empty()) {
                Ok(()) | Err(Errno::EEXIST) => {}
                Err(errno) => {
                    return Err(errno).doing(|| format!("load {}", path.display()));
                }
            }
        }
        Ok(())
    }
}

/// The format of modules.dep(5): a file, a colon, and the files that it needs.
fn parse(text: &str) -> HashMap<String, Vec<String>> {
    let line = |line: &str| {
        let (file, needed) = line.split_once(':')?;
        let name = Path::new(file)
            .file_name()?
            .to_str()?
            .split('.')
            .next()?
            .replace('-', "_");
        let files = std::iter::once(file)
            .chain(needed.split_whitespace())
            .map(str::to_owned)
            .collect();
        Some((name, files))
    };
    text.lines().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_is_found_by_its_name_with_what_it_needs() {
        let files = parse(
            "kernel/fs/f2fs/f2fs.ko: kernel/lib/lz4-x.ko kernel/lib/crc.ko\nkernel/lib/lz4-x.ko:\n",
        );
        assert_eq!(
            files["f2fs"],
            [
                "kernel/fs/f2fs/f2fs.ko",
                "kernel/lib/lz4-x.ko",
                "kernel/lib/crc.ko"
            ]
        );
        assert_eq!(files["lz4_x"], ["kernel/lib/lz4-x.ko"]);
    }
}
