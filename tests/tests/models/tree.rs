//! What a directory holds, as the test compares it. Each call of a program writes a byte of its own,
//! so that a file is a row of cells: the ranges between all places at which anything begins or ends.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use pace_rules::nodes::{Content as Bytes, Effect, Micro};
use trace::{FileId, FileKind, InitialFile, Name};

/// The bytes of what is written lie so far apart in a trace that each place tells which call it is.
pub const DATA_PER_CALL: u64 = 1 << 20;

/// A page of a file.
pub const PAGE: u64 = 4096;

/// The ranges of which each has one byte only.
#[derive(Debug, Clone)]
pub struct Grid(Vec<u64>);

impl Grid {
    /// That of a node's operations.
    pub fn of(initial: &[InitialFile], micros: &[Micro]) -> Self {
        let mut bounds: BTreeSet<u64> = [0].into();
        let sizes = initial.iter().map(|file| file.size);
        bounds.extend(sizes.flat_map(|size| [size, size.next_multiple_of(PAGE)]));
        for micro in micros {
            match &micro.effect {
                Effect::Write {
                    offset, content, ..
                }
                | Effect::Overwrite {
                    offset, content, ..
                } => {
                    let end = offset + content.len();
                    bounds.extend([*offset, end, end.next_multiple_of(PAGE)]);
                }
                Effect::SetSize { size, .. } | Effect::Grow { size, .. } => {
                    bounds.extend([*size, size.next_multiple_of(PAGE)]);
                }
                _ => {}
            }
        }
        Self(bounds.into_iter().collect())
    }

    fn cell(&self, offset: u64) -> usize {
        self.0.binary_search(&offset).expect("all bounds are in it")
    }
}

/// What is in a file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Content {
    size: u64,
    /// A byte for each cell of the grid; zeros past the end.
    cells: Vec<u8>,
}

impl Content {
    fn new(grid: &Grid) -> Self {
        Self {
            size: 0,
            cells: vec![0; grid.0.len()],
        }
    }

    /// Lets something reach the disk that is about this file's bytes.
    pub fn apply(&mut self, effect: &Effect, grid: &Grid) {
        match effect {
            Effect::Write {
                offset, content, ..
            }
            | Effect::Overwrite {
                offset, content, ..
            } => {
                let byte = match content {
                    Bytes::Written(data) => (data.at / DATA_PER_CALL) as u8,
                    Bytes::Zeros(_) => 0,
                    Bytes::Garbage(_) => {
                        unimplemented!("no model of a real file system has garbage")
                    }
                };
                let mut end = offset + content.len();
                if matches!(effect, Effect::Overwrite { .. }) {
                    // What is past the end, in the last page, is hidden.
                    end = end.min(self.size.next_multiple_of(PAGE)).max(*offset);
                } else if end > self.size {
                    self.cells[grid.cell(self.size)..].fill(0);
                    self.size = end;
                }
                self.cells[grid.cell(*offset)..grid.cell(end)].fill(byte);
            }
            Effect::Grow { size, .. } => self.size = self.size.max(*size),
            Effect::SetSize { size, .. } => {
                self.size = *size;
                self.cells[grid.cell(size.next_multiple_of(PAGE))..].fill(0);
            }
            _ => {}
        }
    }

    /// Without what is hidden past the end.
    pub fn seen(mut self, grid: &Grid) -> Self {
        self.cells[grid.cell(self.size)..].fill(0);
        self
    }

    /// All its bytes.
    pub fn bytes(&self, grid: &Grid) -> Vec<u8> {
        let cells = grid.0.windows(2).zip(&self.cells);
        let cells = cells.take_while(|(range, _)| range[1] <= self.size);
        let bytes = |(range, byte): (&[u64], &u8)| vec![*byte; (range[1] - range[0]) as usize];
        cells.flat_map(bytes).collect()
    }

    fn read(bytes: &[u8], grid: &Grid) -> Option<Self> {
        let mut content = Self::new(grid);
        content.size = bytes.len() as u64;
        grid.0.binary_search(&content.size).ok()?;
        for (cell, range) in grid.0.windows(2).enumerate() {
            if range[1] <= content.size {
                let bytes = &bytes[range[0] as usize..range[1] as usize];
                content.cells[cell] = bytes[0];
                if bytes.iter().any(|byte| *byte != bytes[0]) {
                    return None;
                }
            }
        }
        Some(content)
    }
}

/// Names, kinds, modes, and which names are those of one file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Names(pub BTreeMap<String, Named>);

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Named {
    is_directory: bool,
    mode: u32,
    /// The first name of the same file.
    first: String,
}

/// A tree as it was found, with what is in its files by their first names.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Found {
    pub names: Names,
    pub files: BTreeMap<String, InFile>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum InFile {
    Known(Content),
    /// Of another size than any that is written, or torn where nothing can tear: all its bytes.
    Odd(Vec<u8>),
}

/// Runs of equal bytes.
fn runs(bytes: &[u8]) -> String {
    let mut words = Vec::new();
    for run in bytes.chunk_by(|left, right| left == right) {
        words.push(format!("{} x {}", run[0], run.len()));
    }
    format!("[{}]", words.join(", "))
}

impl InFile {
    /// All its bytes.
    pub fn bytes(&self, grid: &Grid) -> Vec<u8> {
        match self {
            Self::Known(content) => content.bytes(grid),
            Self::Odd(bytes) => bytes.clone(),
        }
    }
}

impl Found {
    /// What a directory holds.
    pub fn read(directory: &Path, grid: &Grid) -> std::io::Result<Self> {
        let mut this = Self {
            names: Names::default(),
            files: BTreeMap::new(),
        };
        this.walk(directory, "", &mut HashMap::new(), grid)?;
        Ok(this)
    }

    fn walk(
        &mut self,
        directory: &Path,
        prefix: &str,
        known: &mut HashMap<u64, String>,
        grid: &Grid,
    ) -> std::io::Result<()> {
        let mut entries: Vec<_> = fs::read_dir(directory)?.collect::<Result<_, _>>()?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let path = format!("{prefix}{}", entry.file_name().to_string_lossy());
            let data = entry.metadata()?;
            let first = known
                .entry(data.ino())
                .or_insert_with(|| path.clone())
                .clone();
            if data.is_file() && first == path {
                let bytes = fs::read(entry.path())?;
                let content =
                    Content::read(&bytes, grid).map_or_else(|| InFile::Odd(bytes), InFile::Known);
                self.files.insert(path.clone(), content);
            }
            let named = Named {
                is_directory: data.is_dir(),
                mode: data.permissions().mode() & 0o7777,
                first,
            };
            self.names.0.insert(path.clone(), named);
            if data.is_dir() {
                self.walk(&entry.path(), &format!("{path}/"), known, grid)?;
            }
        }
        Ok(())
    }

    /// In words, a line for each name.
    pub fn told(&self, grid: &Grid) -> String {
        let mut text = String::new();
        for (path, named) in &self.names.0 {
            text += &format!("    {path}: mode {:o}", named.mode);
            if named.first != *path {
                text += &format!(", the same as {}", named.first);
            }
            match self.files.get(path) {
                Some(InFile::Known(content)) => text += &format!(", {}", content.told(grid)),
                Some(InFile::Odd(bytes)) => text += &format!(", ODD {}", runs(bytes)),
                None => {}
            }
            text += "\n";
        }
        text
    }
}

impl Content {
    pub fn told(&self, grid: &Grid) -> String {
        let mut words: Vec<(u8, u64)> = Vec::new();
        for (cell, range) in grid
            .0
            .windows(2)
            .enumerate()
            .filter(|(_, range)| range[1] <= self.size)
        {
            match words.last_mut() {
                Some((byte, len)) if *byte == self.cells[cell] => *len += range[1] - range[0],
                _ => words.push((self.cells[cell], range[1] - range[0])),
            }
        }
        let words: Vec<_> = words
            .iter()
            .map(|(byte, len)| format!("{byte} x {len}"))
            .collect();
        format!("{} bytes [{}]", self.size, words.join(", "))
    }
}

impl fmt::Display for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<_> = self.0.keys().map(String::as_str).collect();
        f.write_str(&all.join(" "))
    }
}

/// A tree without what is in its files.
#[derive(Debug, Clone, Default)]
pub struct Skeleton {
    modes: HashMap<FileId, u32>,
    directories: HashMap<FileId, BTreeMap<Name, FileId>>,
}

impl Skeleton {
    /// What was there at the beginning.
    pub fn initial(files: &[InitialFile]) -> Self {
        let mut this = Self::default();
        for file in files {
            this.modes.insert(file.file, file.mode);
            if file.kind == FileKind::Directory {
                this.directories.insert(file.file, BTreeMap::new());
            }
            if let Some(parent) = file.parent {
                this.directories
                    .entry(parent)
                    .or_default()
                    .insert(file.name.clone(), file.file);
            }
        }
        this
    }

    /// Lets something reach the disk.
    pub fn apply(&mut self, effect: &Effect) {
        match effect {
            Effect::NewFile { file, kind, mode } => {
                self.modes.insert(*file, *mode);
                if *kind == FileKind::Directory {
                    self.directories.insert(*file, BTreeMap::new());
                }
            }
            Effect::SetEntry { parent, name, file } => {
                if let Some(entries) = self.directories.get_mut(parent) {
                    entries.insert(name.clone(), *file);
                }
            }
            Effect::AddEntry { parent, name, file } => {
                if let Some(entries) = self.directories.get_mut(parent) {
                    entries.entry(name.clone()).or_insert(*file);
                }
            }
            Effect::RemoveEntry { parent, name, of } => {
                if let Some(entries) = self.directories.get_mut(parent)
                    && (of.is_none() || *of == entries.get(name).copied())
                {
                    entries.remove(name);
                }
            }
            Effect::SetMode { file, mode } => drop(self.modes.insert(*file, *mode)),
            _ => {}
        }
    }

    /// What can be reached, and which file has each first name.
    pub fn names(&self) -> (Names, BTreeMap<String, FileId>) {
        let (mut names, mut files) = (Names::default(), BTreeMap::new());
        self.walk(
            FileId::ROOT,
            "",
            &mut HashMap::new(),
            &mut names,
            &mut files,
        );
        (names, files)
    }

    fn walk(
        &self,
        directory: FileId,
        prefix: &str,
        known: &mut HashMap<FileId, String>,
        names: &mut Names,
        files: &mut BTreeMap<String, FileId>,
    ) {
        for (name, file) in self.directories.get(&directory).into_iter().flatten() {
            let path = format!("{prefix}{}", String::from_utf8_lossy(name));
            let is_new = !known.contains_key(file);
            let first = known.entry(*file).or_insert_with(|| path.clone()).clone();
            let is_directory = self.directories.contains_key(file);
            let mode = self.modes.get(file).copied().unwrap_or_default();
            names.0.insert(
                path.clone(),
                Named {
                    is_directory,
                    mode,
                    first,
                },
            );
            if is_directory && is_new {
                self.walk(*file, &format!("{path}/"), known, names, files);
            } else if !is_directory && is_new {
                files.insert(path, *file);
            }
        }
    }
}

/// What the files held at the beginning.
pub fn initial_contents(files: &[InitialFile], grid: &Grid) -> HashMap<FileId, Content> {
    let mut all = HashMap::new();
    for file in files.iter().filter(|file| file.kind == FileKind::Regular) {
        let content: &mut Content = all.entry(file.file).or_insert_with(|| Content::new(grid));
        for (offset, data) in &file.content {
            let effect = Effect::Write {
                file: file.file,
                offset: *offset,
                content: Bytes::Written(*data),
            };
            content.apply(&effect, grid);
        }
    }
    all
}

/// A file that holds nothing yet.
pub fn empty(grid: &Grid) -> Content {
    Content::new(grid)
}
