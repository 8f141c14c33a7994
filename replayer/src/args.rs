use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use campaign::quoted;
use checker::Contract;
use clap::Args;
use local_fs::Variant;
use machine::Machine;
use pace_rules::Sector;
use pace_rules::disk::States;
use specification::Specification;
use workloads::{Reader, Workload};

use crate::crash_again::CrashAgain;
use crate::disk_kind::DiskKind;
use crate::error::{Context as _, Error, Result};
use crate::kernel::KernelArgs;
use crate::sweep::SweepOptions;

/// The file systems of one `--fs`.
#[derive(Debug, Clone)]
pub struct Variants(pub Vec<Variant>);

/// Reads what stands after `--fs`.
///
/// # Errors
/// If one is unknown.
pub fn parse_variants(text: &str) -> Result<Variants, local_fs::Error> {
    Variant::parse_list(text).map(Variants)
}

/// Which file systems, with which options, on which disk.
#[derive(Debug, Clone, Args)]
pub struct FileSystemArgs {
    /// The file systems to test, separated by commas, with their options: ext4,ext4:data=journal.
    ///
    /// ext2, ext3, ext4, xfs, btrfs, f2fs, jfs, nilfs2, reiserfs, vfat, minix, those of them that
    /// the kernel has; fuse2fs and ntfs-3g, FUSE file systems, under the running kernel. After
    /// a colon come mount options, after a colon and a hyphen arguments for mkfs:
    /// 'ext4:data=journal,nodelalloc:-O ^64bit,btrfs:compress=zstd' is two file systems.
    #[arg(long = "fs", value_name = "FS[:OPTIONS][,FS…]", value_parser = parse_variants, required = true)]
    pub file_systems: Vec<Variants>,

    /// Mount options to test all of them with, separated by commas, such as barrier=0.
    #[arg(
        long,
        value_name = "OPTIONS",
        value_delimiter = ',',
        allow_hyphen_values = true
    )]
    pub mount_options: Vec<String>,

    /// Arguments for mkfs, separated by spaces, such as '-O ^metadata_csum'.
    #[arg(
        long,
        value_name = "ARGUMENTS",
        value_delimiter = ' ',
        allow_hyphen_values = true
    )]
    pub mkfs_options: Vec<String>,

    /// Size of the disk in MiB, if not the file system's usual one.
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..=65536))]
    pub size: Option<u64>,

    /// How the disk keeps its word: honest, drop-flush (flushes cover nothing), drop-fua,
    /// lose-write:N (the N-th write of the run never happened), or lazy[:SEED].
    ///
    /// A lazy disk is honest, but answers some writes only after later requests have come or a few
    /// milliseconds have gone by: a flush that is sent without waiting for them does not cover
    /// them. Which writes, and for how many requests, follows SEED (0 unless it is given).
    #[arg(long, value_name = "DISK", default_value_t = DiskKind::default())]
    pub disk: DiskKind,

    /// Judge by what another file system promises, or this one with other options: such as
    /// data=writeback by what data=ordered promises.
    #[arg(long, value_name = "FS[:OPTIONS]", value_parser = parse_contract)]
    pub contract: Option<Variant>,

    /// Which crash states to visit, with commas between: prefix (all that was written so far),
    /// flushed (only what a flush or FUA covered), every-write (the power fails after every write
    /// too), reorder:K (up to K of the writes that no flush covered are lost), torn:U (one of them
    /// is cut at units of U bytes), mixed (with both: one is cut while others are lost), all,
    /// sample:N (N of what the others span).
    // Not for everybody: [`Self::states`] heeds the sectors.
    #[arg(long, value_name = "STATES", default_value_t)]
    states: States,

    /// Have the power fail again while the file system recovers, up to N times one after the other.
    ///
    /// What each recovery asks of the disk is recorded: the mount of a crash state, and a sync. It
    /// is interrupted after every write, and what recovers then is judged by what had been promised
    /// at the first crash.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=8))]
    pub again: u32,

    /// With --again: which crash states of a recovery to visit, with the words of --states [default:
    /// those of --states, with every-write].
    #[arg(long, value_name = "STATES")]
    pub again_states: Option<States>,

    /// How much the disk writes whole, in bytes: 512, or 4096 for disks that promise more. No write
    /// is torn within that, whatever --states says.
    #[arg(long, value_name = "BYTES", default_value_t)]
    pub sector: Sector,

    /// How long to take for each file system, such as 10m: each workload gets its share of that,
    /// and visits its crash states in the order in which bugs are likely; the rest is counted.
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub budget: Option<Duration>,

    /// Which kernel to test.
    #[command(flatten)]
    pub kernel: KernelArgs,

    /// How many workers to run side by side [default: one for each processor].
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub jobs: Option<u16>,

    /// What crash states are held against besides.
    #[arg(skip)]
    pub specifications: Vec<Specification>,

    /// What the command line calls the files of these.
    #[arg(skip)]
    pub spec_files: Vec<String>,
}

impl FileSystemArgs {
    /// Has crash states be held against the specifications of a sweep, of which only the texts were
    /// kept.
    pub fn hold_against(&mut self, kept: &[Specification]) {
        self.specifications = kept.to_vec();
        let files = kept.iter().map(|kept| format!("{}.dl", kept.name));
        self.spec_files = files.collect();
    }

    /// The file systems that were named.
    ///
    /// # Errors
    /// If one is unknown, or cannot be tested in the way that is asked for.
    pub fn variants(&self) -> Result<Vec<Variant>> {
        let mut variants: Vec<_> = self
            .file_systems
            .iter()
            .flat_map(|named| named.0.clone())
            .collect();
        for variant in &mut variants {
            variant.mount_options.extend(nonempty(&self.mount_options));
            variant.mkfs_options.extend(nonempty(&self.mkfs_options));
            if let Some(size_mib) = self.size {
                variant.size_bytes = size_mib << 20;
            }
        }
        self.check_again(&variants)?;
        Ok(variants)
    }

    /// Which crash states to visit of such a disk.
    pub fn states(&self) -> States {
        self.states.at_sectors(self.sector)
    }

    /// The same with other crash states.
    #[must_use]
    pub fn with_states(self, states: States) -> Self {
        Self { states, ..self }
    }

    /// Whether the power fails again in recoveries.
    pub fn again(&self) -> CrashAgain {
        CrashAgain {
            times: self.again,
            states: self
                .again_states
                .map(|states| states.at_sectors(self.sector)),
        }
    }

    /// Whether what is asked of recoveries can be done with these file systems.
    ///
    /// # Errors
    /// If not, with what to do.
    fn check_again(&self, variants: &[Variant]) -> Result<()> {
        if self.again == 0 {
            return match self.again_states {
                Some(_) => Err(Error::AgainStatesAlone),
                None => Ok(()),
            };
        }
        let repaired = variants
            .iter()
            .find_map(|variant| Some((variant, variant.file_system.repair?)));
        match repaired {
            Some((variant, repair)) => Err(Error::NoRecovery {
                variant: variant.clone(),
                repairer: repair.program.words(),
            }),
            None => Ok(()),
        }
    }

    /// How to sweep them on a machine.
    pub fn sweep_options(&self, machine: &Machine) -> SweepOptions {
        SweepOptions {
            disk: self.disk,
            contract: self.contract.clone(),
            states: self.states(),
            again: self.again(),
            seed: self.kernel.seed,
            share: None,
            jobs: self.jobs(),
            machine: machine.clone(),
            import: None,
            specifications: self.specifications.clone(),
        }
    }

    /// Where to sweep them.
    ///
    /// # Errors
    /// If there is no such kernel.
    pub fn machine(&self) -> Result<Machine> {
        self.kernel.machine()
    }

    /// How many workers.
    pub fn jobs(&self) -> usize {
        let processors = || std::thread::available_parallelism().map_or(1, usize::from);
        self.jobs.map_or_else(processors, usize::from)
    }

    /// `--spec` with its files, if there are some. Another flag has to follow, or a file with workloads
    /// would be one of them.
    fn spec_flags(&self) -> String {
        if self.spec_files.is_empty() {
            return String::new();
        }
        let files = self.spec_files.iter().map(|file| quoted(file));
        format!("--spec {} ", files.collect::<Vec<_>>().join(" "))
    }

    /// The flags that say the same again, for one file system: for the command that replays a
    /// finding.
    pub fn replay_flags(&self, variant: &Variant) -> String {
        let name = variant.to_string();
        let mut flags = self.spec_flags() + &format!("--fs {}", quoted(&name));
        if let Some(size_mib) = self.size {
            flags += &format!(" --size {size_mib}");
        }
        flags += &self.kernel.flags();
        if self.disk != DiskKind::default() {
            flags += &format!(" --disk {}", self.disk);
        }
        if let Some(contract) = &self.contract {
            flags += &format!(" --contract {}", quoted(&contract.to_string()));
        }
        let states = self.states();
        if states != States::default() {
            flags += &format!(" --states {states}");
        }
        if self.again > 0 {
            flags += &format!(" --again {}", self.again);
        }
        if let Some(states) = self.again().states {
            flags += &format!(" --again-states {states}");
        }
        let samples = [Some(self.states), self.again_states];
        let is_sampled = samples
            .iter()
            .flatten()
            .any(|states| states.sample().is_some());
        if is_sampled && !self.kernel.virtual_time {
            flags += &format!(" --seed {}", self.kernel.seed);
        }
        flags
    }
}

/// A variant that there is a contract for.
fn parse_contract(text: &str) -> Result<Variant, String> {
    let mut variants = Variant::parse_list(text).map_err(|error| error.to_string())?;
    let variant = variants
        .pop()
        .filter(|_| variants.is_empty())
        .ok_or("expected one file system")?;
    Contract::for_variant(&variant).map_err(|error| error.to_string())?;
    Ok(variant)
}

fn nonempty(words: &[String]) -> Vec<String> {
    words
        .iter()
        .filter(|word| !word.is_empty())
        .cloned()
        .collect()
}

/// Files with workloads; `-` is standard input.
#[derive(Debug, Clone, Args)]
pub struct WorkloadFiles {
    /// Files with workloads, ours or CrashMonkey's J-lang; - is standard input.
    // The generator's `--files` has the name of this field.
    #[arg(id = "workload_files", value_name = "FILE")]
    pub files: Vec<PathBuf>,
}

/// Workloads as they are read.
pub type WorkloadIterator<'a> = Box<dyn Iterator<Item = Result<Workload>> + Send + 'a>;

/// Workloads of a sweep with their numbers: of generated ones the generator's, of others their
/// place among all that were read, counted from 0.
pub type NumberedWorkloads<'a> = Box<dyn Iterator<Item = Result<(u64, Workload)>> + Send + 'a>;

impl WorkloadFiles {
    /// Reads every workload of every file.
    ///
    /// # Errors
    /// If a file cannot be read, is not a workload file, or all of them hold no workload.
    pub fn read_all(&self) -> Result<Vec<Workload>> {
        let mut found = Vec::new();
        for path in &self.files {
            let (text, name) = read_text(path)?;
            found.extend(workloads::parse_any(&text, &name)?);
        }
        if found.is_empty() {
            return Err(Error::NoWorkload(self.names()));
        }
        Ok(found)
    }

    /// Reads standard input as a stream, if that is all there is to read.
    pub fn stream(&self) -> Option<WorkloadIterator<'static>> {
        match self.files.as_slice() {
            [] => {}
            [file] if is_standard_input(file) => {}
            _ => return None,
        }
        let reader = Reader::new(BufReader::new(io::stdin()), "standard input");
        Some(Box::new(
            reader.map(|workload| workload.map_err(Error::from)),
        ))
    }

    /// Their names, separated by commas.
    pub fn names(&self) -> String {
        self.files
            .iter()
            .map(|path| path.display().to_string())
            .collect::<Vec<_>>()
            .join(", ")
    }
}

fn is_standard_input(path: &Path) -> bool {
    path.as_os_str() == "-"
}

fn read_text(path: &Path) -> Result<(String, String)> {
    if is_standard_input(path) {
        let mut text = String::new();
        io::stdin()
            .read_to_string(&mut text)
            .doing(|| "read standard input".into())?;
        return Ok((text, "standard input".into()));
    }
    let text = std::fs::read_to_string(path).doing(|| format!("read {}", path.display()))?;
    Ok((text, path.display().to_string()))
}
