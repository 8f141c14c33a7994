//! Where in its program a thread makes a call: the addresses on its stack, and what they are called.
//!
//! framehop unwinds, by the tables that compilers leave in a program (`.eh_frame`) or by frame
//! pointers; blazesym finds the names, once everything has ended. Programs without either keep
//! addresses. What an interpreter runs is not on the stack: one sees the interpreter.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use blazesym::symbolize::source::{Elf, Source};
use blazesym::symbolize::{CodeInfo, Input, Symbolizer};
use framehop::{
    CacheNative, MayAllocateDuringUnwind, Module, ModuleSectionInfo, Unwinder, UnwinderNative,
};
use libc::pid_t;
use object::elf::PF_X;
use object::read::ReadCache;
use object::{Object, ObjectSection, ObjectSegment, SegmentFlags};

use crate::observer::StackTable;
use crate::system;

/// So many frames of a stack are kept: those next to the call.
const FRAMES_MAX: usize = 32;

/// So much of a stack is read at once.
const PIECE_BYTES: u64 = 4096;

/// How often a process may have its memory map read: whenever an address is in no module that was
/// known, since programs load libraries. Programs that make their code at run time have such
/// addresses all the time.
const READS_MAX: u32 = 16;

/// Interpreters, as their files are called. Where one is depends on what it made of the same line of a
/// program before: Python runs a call by other instructions once it has seen it often enough.
const INTERPRETERS: [&str; 4] = ["python", "libpython", "perl", "libperl"];

/// The sections by which code is unwound.
const SECTIONS: [&str; 5] = [
    ".eh_frame",
    ".eh_frame_hdr",
    ".debug_frame",
    ".text",
    ".got",
];

/// A function of a program on the way to a call. Several have one address where the compiler put
/// one in the place of the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// The path of the program or library, as the process has it.
    pub module: Arc<str>,
    /// The address in it, as the file counts them.
    pub address: u64,
    /// The function, if the file names it.
    pub function: Option<String>,
    /// The source file and the line, if the file has them.
    pub source: Option<(String, u32)>,
}

/// The addresses of a section, and its bytes if it is a table.
type Section = (Range<u64>, Option<Arc<[u8]>>);

/// An address in one of the modules.
type Address = (usize, u64);

/// A file that processes run code of.
struct Image {
    path: Arc<str>,
    /// A hash of it.
    of_path: u64,
    is_interpreter: bool,
    file: File,
    sections: HashMap<&'static str, Section>,
    /// Where in the file, and at which address, the pieces of code are that are loaded.
    segments: Vec<(Range<u64>, u64)>,
}

/// What of the memory of a process is code.
struct Layout {
    unwinder: UnwinderNative<Arc<[u8]>, MayAllocateDuringUnwind>,
    /// The ranges of code, each with its image and what its addresses are more than those in the
    /// file.
    code: Vec<(Range<u64>, usize, u64)>,
    reads: u32,
}

/// The stacks of a node's threads.
#[derive(Default)]
pub(crate) struct Stacks {
    images: Vec<Image>,
    /// By device and inode; none of what is no ELF file.
    known_images: HashMap<(u64, u64), Option<usize>>,
    layouts: HashMap<pid_t, Layout>,
    cache: CacheNative<MayAllocateDuringUnwind>,
    memory: Memory,
    known: HashMap<u64, Vec<Address>>,
}

/// Stacks of addresses with the functions there, as the files that have the names of their modules here
/// say: for whoever has addresses of a tracer that was somewhere else. Of files that are not there, or
/// are no programs, addresses stay alone.
pub fn named(stacks: &StackTable) -> StackTable {
    let frames = functions_at(stacks);
    let of_frame = |frame: &Frame| {
        let found = frames.get(&(&*frame.module, frame.address));
        found.cloned().unwrap_or_else(|| vec![frame.clone()])
    };
    let of_stack = |stack: &Vec<Frame>| stack.iter().flat_map(of_frame).collect();
    let stacks = stacks.iter();
    stacks
        .map(|(number, stack)| (*number, of_stack(stack)))
        .collect()
}

/// What is at each address of some stacks, by module; nothing of a module whose file is not here.
fn functions_at(stacks: &StackTable) -> HashMap<(&str, u64), Vec<Frame>> {
    let mut wanted: BTreeMap<&str, BTreeSet<u64>> = BTreeMap::new();
    for frame in stacks.values().flatten() {
        let addresses = wanted.entry(&frame.module).or_default();
        addresses.insert(frame.address);
    }
    let mut frames: HashMap<(&str, u64), Vec<Frame>> = HashMap::new();
    for (module, addresses) in wanted {
        let file = File::open(module);
        let Ok(image) = file.and_then(|file| Image::read(module, file)) else {
            continue;
        };
        let addresses: Vec<_> = addresses.into_iter().collect();
        let keys = addresses.iter().map(|address| (module, *address));
        frames.extend(keys.zip(image.names(&addresses)));
    }
    frames
}

impl Stacks {
    /// The stack of a thread that has stopped, as a number by which [`Stacks::names`] knows it. It
    /// is the same for the same places of the same files, of which an interpreter is one place. 0 if
    /// there is nothing to be known.
    pub(crate) fn of(&mut self, thread: pid_t, process: pid_t) -> u64 {
        let Ok((instruction, registers)) = system::unwind_registers(thread) else {
            return 0;
        };
        if !self.layouts.contains_key(&process) {
            self.read_layout(process);
        }
        let mut found = self.unwind(thread, process, instruction, registers);
        if found.as_ref().is_none_or(|(_, is_whole)| !is_whole)
            && self
                .layouts
                .get(&process)
                .is_none_or(|layout| layout.reads < READS_MAX)
            && self.read_layout(process)
        {
            found = self.unwind(thread, process, instruction, registers);
        }
        let (addresses, _) = found.unwrap_or_default();
        if addresses.is_empty() {
            return 0;
        }
        let mut hasher = DefaultHasher::new();
        let mut places: Vec<_> = addresses
            .iter()
            .map(|(image, address)| {
                let image = &self.images[*image];
                (image.of_path, (!image.is_interpreter).then_some(address))
            })
            .collect();
        places.dedup();
        places.hash(&mut hasher);
        let number = hasher.finish();
        self.known.entry(number).or_insert(addresses);
        number
    }

    /// The addresses of a stack that was found, without names.
    pub(crate) fn frames(&self, number: u64) -> Vec<Frame> {
        let frame = |(image, address): &Address| Frame {
            module: self.images[*image].path.clone(),
            address: *address,
            function: None,
            source: None,
        };
        let found = self.known.get(&number);
        found.into_iter().flatten().map(frame).collect()
    }

    /// A process runs another program, or has ended.
    pub(crate) fn forget(&mut self, process: pid_t) {
        self.layouts.remove(&process);
    }

    /// The addresses, and whether all of them are in modules that are known.
    fn unwind(
        &mut self,
        thread: pid_t,
        process: pid_t,
        instruction: u64,
        registers: framehop::UnwindRegsNative,
    ) -> Option<(Vec<Address>, bool)> {
        let layout = self.layouts.get(&process)?;
        self.memory.begin(thread);
        let memory = &mut self.memory;
        let mut read = |address| memory.read(address);
        let (cache, unwinder) = (&mut self.cache, &layout.unwinder);
        let mut frames = unwinder.iter_frames(instruction, registers, cache, &mut read);
        let mut addresses: Vec<Address> = Vec::new();
        while addresses.len() < FRAMES_MAX
            && let Ok(Some(frame)) = frames.next()
        {
            let address = frame.address_for_lookup();
            let found = layout
                .code
                .iter()
                .find(|(range, ..)| range.contains(&address));
            match found {
                Some((_, image, bias)) => {
                    let address = (*image, address.wrapping_sub(*bias));
                    // How deep a function called itself is not where it is.
                    if addresses.last() != Some(&address) {
                        addresses.push(address);
                    }
                }
                None => return Some((addresses, false)),
            }
        }
        Some((addresses, true))
    }

    /// Reads what of a process's memory is code. Says whether it could.
    fn read_layout(&mut self, process: pid_t) -> bool {
        let reads = self.layouts.get(&process).map_or(0, |layout| layout.reads);
        let Ok(maps) = std::fs::read_to_string(format!("/proc/{process}/maps")) else {
            return false;
        };
        let mut layout = Layout {
            unwinder: UnwinderNative::new(),
            code: Vec::new(),
            reads: reads + 1,
        };
        for line in maps.lines() {
            let Some(mapping) = Mapping::parse(line).filter(|mapping| mapping.is_code) else {
                continue;
            };
            let Some(number) = self.image(process, &mapping) else {
                continue;
            };
            let image = &self.images[number];
            let Some(bias) = image.bias(&mapping) else {
                continue;
            };
            let range = mapping.range.clone();
            let sections = Sections(&image.sections);
            let module = Module::new(image.path.to_string(), range.clone(), bias, sections);
            layout.unwinder.add_module(module);
            layout.code.push((range, number, bias));
        }
        self.layouts.insert(process, layout);
        true
    }

    /// The file of a mapping, if it is one that can be read.
    fn image(&mut self, process: pid_t, mapping: &Mapping) -> Option<usize> {
        let path = format!("/proc/{process}/root{}", mapping.path);
        let file = File::open(path).ok()?;
        let metadata = file.metadata().ok()?;
        // Another file may have the name by now.
        if metadata.ino() != mapping.inode {
            return None;
        }
        let key = (metadata.dev(), metadata.ino());
        if let Some(known) = self.known_images.get(&key) {
            return *known;
        }
        let image = Image::read(mapping.path, file).ok();
        let number = image.map(|image| {
            self.images.push(image);
            self.images.len() - 1
        });
        self.known_images.insert(key, number);
        number
    }

    /// The stacks by their numbers, each from the call outwards, with names where files have them.
    pub(crate) fn names(self) -> BTreeMap<u64, Vec<Frame>> {
        let mut wanted: BTreeMap<usize, Vec<u64>> = BTreeMap::new();
        for (image, address) in self.known.values().flatten() {
            wanted.entry(*image).or_default().push(*address);
        }
        let mut frames: HashMap<Address, Vec<Frame>> = HashMap::new();
        for (number, mut addresses) in wanted {
            addresses.sort_unstable();
            addresses.dedup();
            for (address, here) in addresses.iter().zip(self.images[number].names(&addresses)) {
                frames.insert((number, *address), here);
            }
        }
        let named = |stack: &Vec<Address>| stack.iter().flat_map(|at| frames[at].clone()).collect();
        let known = self.known.iter();
        known
            .map(|(number, stack)| (*number, named(stack)))
            .collect()
    }
}

fn is_code(flags: SegmentFlags) -> bool {
    match flags {
        SegmentFlags::Elf { p_flags, .. } => (p_flags.0 & PF_X.0) != 0,
        _ => false,
    }
}

impl Image {
    fn read(path: &str, file: File) -> io::Result<Self> {
        let damaged = |error| io::Error::new(io::ErrorKind::InvalidData, error);
        let cache = ReadCache::new(file.try_clone()?);
        let object = object::File::parse(&cache).map_err(damaged)?;
        let mut sections = HashMap::new();
        for name in SECTIONS {
            let Some(section) = object.section_by_name(name) else {
                continue;
            };
            let range = section.address()..section.address() + section.size();
            let is_table = name.contains("frame");
            let data = section.uncompressed_data().ok().filter(|_| is_table);
            sections.insert(name, (range, data.map(|data| Arc::from(&*data))));
        }
        let segments = object.segments();
        let segments = segments.filter(|segment| is_code(segment.flags()));
        let segments = segments.map(|segment| {
            let (from, len) = segment.file_range();
            (from..from + len, segment.address())
        });
        let segments = segments.collect();
        Ok(Self {
            of_path: hash_of(path),
            is_interpreter: is_interpreter(path),
            path: path.into(),
            file,
            sections,
            segments,
        })
    }

    /// What the addresses of a mapping are more than those that the file says.
    fn bias(&self, mapping: &Mapping) -> Option<u64> {
        // A mapping begins with a page, and a segment anywhere in one.
        let ends = mapping.offset + (mapping.range.end - mapping.range.start);
        let mut segments = self.segments.iter();
        let (range, address) = segments.find(|(range, _)| {
            range.start < ends && mapping.offset < range.end && !range.is_empty()
        })?;
        let of_first = address
            .wrapping_sub(range.start)
            .wrapping_add(mapping.offset);
        Some(mapping.range.start.wrapping_sub(of_first))
    }

    /// What is at these addresses: a function, and before it those that the compiler put in its
    /// place.
    fn names(&self, addresses: &[u64]) -> Vec<Vec<Frame>> {
        let source = Source::Elf(Elf::new(self.own_path()));
        let symbolizer = Symbolizer::new();
        let input = Input::VirtOffset(addresses);
        let found = symbolizer.symbolize(&source, input).unwrap_or_default();
        let frame = |address, function: Option<&str>, code: Option<&CodeInfo>| Frame {
            module: self.path.clone(),
            address,
            function: function.map(str::to_owned),
            source: code.and_then(line_of),
        };
        let frames = |(place, address): (usize, &u64)| {
            let Some(symbol) = found.get(place).and_then(|found| found.as_sym()) else {
                return vec![frame(*address, None, None)];
            };
            let inlined = symbol.inlined.iter().rev();
            let inlined = inlined.map(|inlined| (&*inlined.name, inlined.code_info.as_ref()));
            let all = inlined.chain([(&*symbol.name, symbol.code_info.as_deref())]);
            all.map(|(name, code)| frame(*address, Some(name), code))
                .collect()
        };
        addresses.iter().enumerate().map(frames).collect()
    }

    /// A path of the file that was run, whatever is at its own path by now.
    fn own_path(&self) -> String {
        format!("/proc/self/fd/{}", self.file.as_raw_fd())
    }
}

fn line_of(code: &CodeInfo<'_>) -> Option<(String, u32)> {
    Some((code.to_path().display().to_string(), code.line?))
}

fn is_interpreter(path: &str) -> bool {
    let file = path.rsplit('/').next().unwrap_or(path);
    INTERPRETERS.iter().any(|name| file.starts_with(name))
}

fn hash_of(path: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    path.hash(&mut hasher);
    hasher.finish()
}

/// A line of `/proc/PID/maps` (proc(5)).
struct Mapping<'a> {
    range: Range<u64>,
    is_code: bool,
    offset: u64,
    inode: u64,
    path: &'a str,
}

impl<'a> Mapping<'a> {
    /// Of a file; others have no path with a slash.
    fn parse(line: &'a str) -> Option<Self> {
        let mut words = line.splitn(6, ' ');
        let (from, to) = words.next()?.split_once('-')?;
        let number = |word| u64::from_str_radix(word, 16).ok();
        let range = number(from)?..number(to)?;
        let is_code = words.next()?.contains('x');
        let offset = number(words.next()?)?;
        let inode = words.nth(1)?.parse().ok()?;
        let path = words.next()?.trim_start();
        path.starts_with('/').then_some(Self {
            range,
            is_code,
            offset,
            inode,
            path,
        })
    }
}

/// The sections of an image, as framehop asks for them.
struct Sections<'a>(&'a HashMap<&'static str, Section>);

impl ModuleSectionInfo<Arc<[u8]>> for Sections<'_> {
    fn base_svma(&self) -> u64 {
        0
    }

    fn section_svma_range(&mut self, name: &[u8]) -> Option<Range<u64>> {
        let name = std::str::from_utf8(name).ok()?;
        Some(self.0.get(name)?.0.clone())
    }

    fn section_data(&mut self, name: &[u8]) -> Option<Arc<[u8]>> {
        let name = std::str::from_utf8(name).ok()?;
        self.0.get(name)?.1.clone()
    }
}

/// The memory of a thread that has stopped, read in pieces. The buffers are used again.
#[derive(Default)]
struct Memory {
    thread: pid_t,
    pieces: Vec<Piece>,
    /// So many of the pieces are of this stop.
    used: usize,
}

#[derive(Default)]
struct Piece {
    begin: u64,
    bytes: Vec<u8>,
}

impl Memory {
    /// Another stop.
    fn begin(&mut self, thread: pid_t) {
        self.thread = thread;
        self.used = 0;
    }

    /// A word.
    fn read(&mut self, address: u64) -> Result<u64, ()> {
        let begin = address & !(PIECE_BYTES - 1);
        let at = (address - begin) as usize;
        let known = &self.pieces[..self.used];
        let place = known.iter().position(|piece| piece.begin == begin);
        let place = match place {
            Some(place) => place,
            None => self.read_piece(begin)?,
        };
        let word = self.pieces[place].bytes.get(at..at + 8).ok_or(())?;
        Ok(u64::from_le_bytes(word.try_into().map_err(drop)?))
    }

    fn read_piece(&mut self, begin: u64) -> Result<usize, ()> {
        if self.pieces.len() == self.used {
            self.pieces.push(Piece::default());
        }
        let piece = &mut self.pieces[self.used];
        piece.begin = begin;
        piece.bytes.resize(PIECE_BYTES as usize, 0);
        system::read_memory(self.thread, begin, &mut piece.bytes).map_err(drop)?;
        self.used += 1;
        Ok(self.used - 1)
    }
}
