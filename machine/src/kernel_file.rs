//! The file of a guest's kernel: what it is built for, and whether a library can be preloaded.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use memchr::memmem;
use object::elf::{EM_386, EM_X86_64, FileHeader64, PT_INTERP};
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, ReadCache};

use crate::error::{Context as _, Error, Result};
use crate::xstate;

/// What scripts/uml/6-whole-xstate.patch leaves in a kernel.
const PATCH_MARK: &[u8] = b"crashpoint: sets the whole xstate";

/// The first release whose kernels ask the host how much state there is (commit 3f17fed21491).
const SIZED_BY_HOST: (u32, u32) = (6, 13);

/// What an executable is to us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KernelFile {
    /// It has a dynamic loader, which preloads what it is told to.
    pub(crate) dynamic: bool,
}

impl KernelFile {
    /// Reads the headers of a program; none if it is no ELF of 64 bits, such as a script.
    ///
    /// # Errors
    /// If it cannot be read, or was built for another architecture than User-Mode Linux has.
    pub(crate) fn read(path: &Path) -> Result<Option<Self>> {
        let file = File::open(path).doing(|| format!("open the kernel {}", path.display()))?;
        let cache = ReadCache::new(file);
        let Ok(header) = FileHeader64::<Endianness>::parse(&cache) else {
            return Ok(None);
        };
        let Ok(endian) = header.endian() else {
            return Ok(None);
        };
        let machine = header.e_machine(endian);
        if ![EM_X86_64, EM_386].contains(&machine) {
            return Err(Error::Architecture {
                path: path.into(),
                machine: machine.0,
            });
        }
        let segments = header.program_headers(endian, &cache).unwrap_or_default();
        Ok(Some(Self {
            dynamic: segments
                .iter()
                .any(|segment| segment.p_type(endian) == PT_INTERP),
        }))
    }

    /// Whether the kernel knows of less state than this machine's processor has, and must be given
    /// a library that makes up for it.
    ///
    /// # Errors
    /// If it must, and cannot, as it is linked statically; says what to do.
    pub(crate) fn needs_shim(self, path: &Path, release: &str) -> Result<bool> {
        if !xstate::is_beyond_guests() || is_sized_by_host(release) {
            return Ok(false);
        }
        if self.dynamic || has_text(path, PATCH_MARK)? {
            return Ok(self.dynamic);
        }
        Err(Error::TooMuchState {
            path: path.into(),
            host_bytes: xstate::host_state_bytes().unwrap_or_default(),
            known_bytes: xstate::GUEST_STATE_BYTES,
        })
    }
}

/// Whether a kernel of this release asks for the size of the state.
fn is_sized_by_host(release: &str) -> bool {
    let mut numbers = release
        .split(|letter: char| !letter.is_ascii_digit())
        .map_while(|number| number.parse().ok());
    numbers
        .next()
        .zip(numbers.next())
        .is_some_and(|version| version >= SIZED_BY_HOST)
}

/// Whether a text is in a kernel, as patches leave one.
///
/// # Errors
/// If the kernel cannot be read.
pub(crate) fn has_text(path: &Path, text: &[u8]) -> Result<bool> {
    let open = File::open(path).doing(|| format!("open the kernel {}", path.display()))?;
    let mut file = BufReader::new(open);
    let mut window = Vec::new();
    // The mark may lie across the end of a piece: its length is kept of each.
    while file
        .by_ref()
        .take(1 << 20)
        .read_to_end(&mut window)
        .doing(|| "read the kernel".into())?
        > 0
    {
        if memmem::find(&window, text).is_some() {
            return Ok(true);
        }
        window.drain(..window.len().saturating_sub(text.len()));
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_from_6_13_on_ask_for_the_size_of_the_state() {
        let answers = [
            "6.1.176", "6.12.57", "6.13.0", "6.13-rc1", "7.0.1", "5.19", "nonsense",
        ];
        let expected = [false, false, true, true, true, false, false];
        assert_eq!(answers.map(is_sized_by_host), expected);
    }

    #[test]
    fn the_mark_of_the_patch_is_found_wherever_it_lies() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let holds = |content: &[u8]| {
            std::fs::write(file.path(), content).expect("written");
            has_text(file.path(), PATCH_MARK).expect("read")
        };
        assert!(!holds(&vec![0; 3 << 20]));
        for place in [0, 1, (1 << 20) - 1, (1 << 20) - 7, 1 << 20, (2 << 20) - 3] {
            let content = [&vec![0; place], PATCH_MARK, b"and more"].concat();
            assert!(holds(&content), "at {place}");
            assert!(
                !holds(&content[..place + PATCH_MARK.len() - 1]),
                "cut off at {place}"
            );
        }
    }

    #[test]
    fn this_test_is_dynamic_and_a_script_is_no_kernel() {
        let own = std::env::current_exe().expect("a test is a program");
        if cfg!(target_arch = "x86_64") {
            assert_eq!(
                KernelFile::read(&own).expect("read"),
                Some(KernelFile { dynamic: true })
            );
        }
        assert_eq!(
            KernelFile::read(Path::new("Cargo.toml")).expect("read"),
            None
        );
    }
}
