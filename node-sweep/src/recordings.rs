//! All recordings of a program, each with what else was done on the disk meanwhile: the crash
//! states of one after those of the other, and what was found in any of them.

use std::collections::{BTreeSet, HashMap};

use pace_rules::disk::{Kind, States};
use pace_rules::nodes::{BlockCount, BlockError, BlockRequest, BlockSpace, StartOrder};
use trace::Run;
use trace_store::Trace;

use brief::counted;

use crate::blocks::{BlockFindings, Blocks, Group, recorded_disks};
use crate::error::Result;
use crate::finding::Finding;
use crate::summary::recordings_words;
use crate::sweep::{Broken, Made, Size, Source, Swept};

/// The states of the disks of all recordings that a trace has, or of all recoveries of their file
/// systems.
pub struct Recordings<'a> {
    members: Vec<Recording<'a>>,
    /// Whether each is of a recovery from a crash.
    are_recoveries: bool,
}

/// One of them.
pub(crate) struct Recording<'a> {
    pub(crate) trace: &'a Trace,
    pub(crate) space: BlockSpace,
    /// The number that the first of its states has among all.
    first: u64,
}

impl Recording<'_> {
    fn findings<'s>(&'s self, mounts: bool, decided: Option<&'s Swept>) -> BlockFindings<'s> {
        BlockFindings {
            trace: self.trace,
            space: &self.space,
            mounts,
            decided,
        }
    }

    /// What came of its own states, by their numbers in it.
    fn own(&self, swept: &Swept) -> Swept {
        let end = self.first.saturating_add(self.space.len());
        swept.part(self.first..end)
    }
}

impl<'a> Recordings<'a> {
    /// Those of a trace; of a cluster, once for each of the orders in which nodes are started.
    ///
    /// # Errors
    /// If what is asked for does not fit a run.
    pub fn new(
        trace: &'a Trace,
        request: &BlockRequest,
        starts: &[StartOrder],
    ) -> Result<Self, BlockError> {
        Self::of(trace.recordings(), request, starts)
    }

    /// Those of what the file system of a trace's disk wrote while it recovered from crashes.
    ///
    /// # Errors
    /// Like [`Self::new`].
    pub(crate) fn of_recoveries(
        trace: &'a Trace,
        request: &BlockRequest,
    ) -> Result<Self, BlockError> {
        let this = Self::of(trace.recoveries(true), request, &[])?;
        Ok(Self {
            are_recoveries: true,
            ..this
        })
    }

    fn of(
        traces: impl Iterator<Item = &'a Trace>,
        request: &BlockRequest,
        starts: &[StartOrder],
    ) -> Result<Self, BlockError> {
        let mut first = 0;
        let members = traces.map(|trace| {
            let states = states_of(trace, request.states);
            let request = BlockRequest { states, ..*request };
            let mut space = BlockSpace::new(&trace.run, recorded_disks(trace), &request)?;
            // What an order does to a cluster that lost nothing cannot be asked of one that was
            // not recorded as a whole.
            if trace.about.not_recorded.is_empty() {
                space = space.with_starts(starts);
            }
            let member = Recording {
                trace,
                space,
                first,
            };
            first = first.saturating_add(member.space.len());
            Ok(member)
        });
        Ok(Self {
            members: members.collect::<Result<_, _>>()?,
            are_recoveries: false,
        })
    }

    /// The states of the first recording, which is the only one of a cluster.
    pub fn first(&self) -> &BlockSpace {
        &self.members[0].space
    }

    /// How many states there are.
    pub fn len(&self) -> u64 {
        let lens = self.members.iter().map(|member| member.space.len());
        lens.fold(0, u64::saturating_add)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many of each kind, of one recording after the other.
    pub(crate) fn counts(&self) -> Vec<BlockCount> {
        let members = self.members.iter();
        members.flat_map(|member| member.space.counts()).collect()
    }

    /// The recording that has a state, and the number of the state in it.
    ///
    /// # Panics
    /// If there is none.
    pub(crate) fn find(&self, index: u64) -> (&Recording<'a>, u64) {
        let (place, own) = self.place(index);
        (&self.members[place], own)
    }

    fn place(&self, index: u64) -> (usize, u64) {
        let after = self.members.partition_point(|member| member.first <= index);
        let place = after - 1;
        (place, index - self.members[place].first)
    }

    /// What was done on the disks in each recording, by the names of the schedules; nothing is while
    /// a file system recovers.
    pub(crate) fn schedules(&self) -> Vec<String> {
        if self.are_recoveries {
            return Vec::new();
        }
        let members = self.members.iter();
        members
            .map(|member| member.trace.schedule().to_owned())
            .collect()
    }

    /// What the disks are, in words.
    pub(crate) fn file_systems(&self) -> String {
        let words = self.members[0].findings(false, None).file_systems();
        if self.are_recoveries {
            words + ", again"
        } else {
            words
        }
    }

    /// Which states of them are visited, where these are asked for.
    pub(crate) fn states(&self, asked: States) -> States {
        states_of(self.members[0].trace, asked)
    }

    /// What the recordings are, in words.
    pub(crate) fn words(&self) -> String {
        if self.are_recoveries {
            let recoveries = counted(self.members.len(), "recovery");
            return format!(
                "{recoveries} of {}",
                self.members[0].findings(false, None).file_systems()
            );
        }
        recordings_words(&self.file_systems(), &self.schedules())
    }

    /// What is to be known of those disks on which FUA was not recognised, if there are any.
    pub(crate) fn fua_words(&self) -> Option<String> {
        let members = self.members.iter();
        let disks = members.flat_map(|member| member.trace.disks.values());
        let recognised: Vec<_> = disks.map(|disk| disk.log.recognises_fua()).collect();
        let not = recognised.iter().filter(|recognised| !**recognised).count();
        (not > 0).then(|| {
            format!(
                "on {not} of {}, recorded without a whole trace of tracefs, FUA cannot be told from a flush: they \
                 seem to keep more than they must",
                counted(recognised.len(), "disk")
            )
        })
    }

    /// Makes the states.
    ///
    /// # Errors
    /// If a file system of a disk is not known here.
    pub(crate) fn source(&self) -> Result<AllBlocks<'_>> {
        let members = self.members.iter();
        let blocks = members.map(|member| Blocks::new(member.trace, &member.space));
        Ok(AllBlocks {
            recordings: self,
            blocks: blocks.collect::<Result<_>>()?,
        })
    }

    /// The findings of a sweep, the smallest first. Those that are alike in several recordings are
    /// one, which says in which it was seen. With `mounts` the disks are mounted in order to tell
    /// what their file systems make of them, which takes root.
    ///
    /// # Errors
    /// If a disk that was looked at before cannot be looked at again.
    pub fn findings(&self, swept: &Swept, mounts: bool) -> Result<Vec<Finding>> {
        let mut blocks = self.source()?.blocks;
        let decided = Some(swept).filter(|swept| swept.is_whole && swept.open() == 0);
        let told = |(number, alike): (usize, Alike)| {
            let Alike {
                place,
                group,
                states,
                different,
                seen,
            } = alike;
            let (member, broken) = (&self.members[place], group.broken);
            let state = member.space.state(broken.smallest);
            let finding = member.findings(mounts, decided).told(
                number + 1,
                &state,
                &Broken { states, ..broken },
                group.kind,
                &mut blocks[place],
            )?;
            let all = self.schedules();
            let recoveries = if self.are_recoveries { seen.len() } else { 0 };
            let under = seen.into_iter().filter_map(|place| all.get(place).cloned());
            Ok(Finding {
                plain: group.plain,
                different,
                state: member.first + finding.state,
                seen_under: under.collect(),
                recorded_under: all,
                recoveries,
                ..finding
            })
        };
        self.alike(swept)
            .into_iter()
            .enumerate()
            .map(told)
            .collect()
    }

    /// What there is to tell of a state. Nothing is mounted for that.
    ///
    /// # Errors
    /// If a file system of a disk is not known here.
    pub(crate) fn story(&self, shown: &Broken) -> Result<Finding> {
        let (member, own) = self.find(shown.smallest);
        let state = member.space.state(own);
        let mut blocks = Blocks::new(member.trace, &member.space)?;
        let shown = Broken {
            smallest: own,
            ..shown.clone()
        };
        member
            .findings(false, None)
            .told(0, &state, &shown, state.kind, &mut blocks)
    }

    /// What is alike in any of the recordings together, the smallest first.
    fn alike(&self, swept: &Swept) -> Vec<Alike> {
        let mut all: HashMap<(Vec<String>, Kind), Alike> = HashMap::new();
        for (place, member) in self.members.iter().enumerate() {
            for group in member.findings(false, None).groups(&member.own(swept)) {
                let states = group.broken.states;
                // A state may equal one of another recording. Recoveries may be more than are counted
                // one by one.
                let places = 0..self.members.len();
                let is_seen = |other: &usize| {
                    if self.are_recoveries {
                        *other == place
                    } else {
                        group.broken.models.contains(*other)
                    }
                };
                let seen = places.filter(is_seen);
                let alike = Alike {
                    place,
                    states,
                    different: group.different,
                    seen: seen.collect(),
                    group,
                };
                match all.remove(&alike.kind()) {
                    Some(before) => all.insert(alike.kind(), before.with(alike)),
                    None => all.insert(alike.kind(), alike),
                };
            }
        }
        let mut all: Vec<_> = all.into_values().collect();
        all.sort_by_key(Alike::order);
        all
    }
}

/// Which states of its disks are visited of what was recorded, where these are asked for. No call
/// returns while a file system recovers, so nothing is promised at one moment more than at another:
/// the power may fail after any write.
fn states_of(trace: &Trace, asked: States) -> States {
    if trace.about.recovers.is_some() {
        asked.at_every_write()
    } else {
        asked
    }
}

/// Broken states of one or more recordings that are alike.
struct Alike {
    /// The recording with the smallest of them.
    place: usize,
    /// Those of this recording.
    group: Group,
    /// How many there are in all recordings.
    states: u64,
    /// How many of them differ: one that several recordings share is of the first.
    different: u64,
    /// The recordings that have some.
    seen: BTreeSet<usize>,
}

impl Alike {
    fn kind(&self) -> (Vec<String>, Kind) {
        (self.group.plain.clone(), self.group.kind)
    }

    fn order(&self) -> (Size, usize, u64) {
        (self.group.size, self.place, self.group.broken.smallest)
    }

    /// With what is alike in a later recording.
    fn with(self, later: Self) -> Self {
        let states = self.states + later.states;
        let different = self.different + later.different;
        let seen = &self.seen | &later.seen;
        let smallest = if later.order() < self.order() {
            later
        } else {
            self
        };
        Self {
            states,
            different,
            seen,
            ..smallest
        }
    }
}

/// Makes the states of all recordings.
pub(crate) struct AllBlocks<'a> {
    recordings: &'a Recordings<'a>,
    blocks: Vec<Blocks<'a>>,
}

impl AllBlocks<'_> {
    /// Whether copies of one of the disks cannot be mounted side by side.
    pub(crate) fn one_at_a_time(&self) -> bool {
        self.blocks.iter().any(Blocks::one_at_a_time)
    }
}

impl Source for AllBlocks<'_> {
    /// The recording that it is of.
    fn model(&self, index: u64) -> usize {
        if self.recordings.are_recoveries {
            0
        } else {
            self.recordings.place(index).0
        }
    }

    fn runs(&self) -> Vec<&Run> {
        let members = self.recordings.members.iter();
        members.map(|member| &member.trace.run).collect()
    }

    fn make(&mut self, index: u64) -> Made {
        let (place, own) = self.recordings.place(index);
        Made {
            run: place,
            ..self.blocks[place].make(own)
        }
    }

    fn with_less_missing(&self, index: u64) -> Vec<u64> {
        let (place, own) = self.recordings.place(index);
        let in_order = self.recordings.members[place].space.in_order(own);
        let first = self.recordings.members[place].first;
        in_order.map(|own| first + own).into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::Arc;

    use block_dev::{Base, BlockLog};
    use pace_rules::nodes::Explore;
    use trace::{InitialFile, Node};
    use trace_store::{Disk, Recovers, RecoveryCounts};

    use super::*;
    use crate::ModelSet;
    use crate::request::tests::request;
    use crate::summary::{Summary, without_recoveries};

    /// A program whose disk was sent so many writes.
    fn recording(schedule: &str, writes: u64) -> Trace {
        let mut trace = Trace::default();
        trace.run.nodes.push(Node {
            name: "program".into(),
            initial: vec![InitialFile::empty_root()],
            events: Vec::new(),
        });
        let mut log = BlockLog::default();
        for write in 0..writes {
            log.push_write(4096 * write, schedule.as_bytes(), 10 * (write + 1));
        }
        let disk = Disk {
            file_system: "ext4".into(),
            directory: "data".into(),
            base: Arc::new(Base::empty(1 << 20)),
            log,
            durable: 0,
            after: None,
        };
        trace.disks.insert("program".into(), disk);
        trace.about.schedule = Some(schedule.into());
        trace
    }

    fn trace() -> Trace {
        Trace {
            others: vec![recording("neighbour", 4), recording("writeback", 3)],
            ..recording("quiet", 2)
        }
    }

    fn recordings(trace: &Trace) -> Recordings<'_> {
        let states = "every-write,reorder:1".parse().expect("states");
        let explore = Explore::BruteForce;
        Recordings::new(trace, &BlockRequest { explore, states }, &[]).expect("spaces")
    }

    /// A sweep in which this was said of states; each of them stands for two.
    fn swept(recordings: &Recordings<'_>, words: impl Fn(usize, u64) -> Option<String>) -> Swept {
        let mut swept = Swept::default();
        let mut source = recordings.source().expect("a source");
        for index in 0..recordings.len() {
            let (place, own) = recordings.place(index);
            if let Some(words) = words(place, own) {
                let key = source.make(index).state.expect("a disk").key;
                let broken = swept.broken.entry(key).or_insert_with(|| Broken {
                    states: 2,
                    smallest: index,
                    complaint: vec![words].into(),
                    models: ModelSet::default(),
                    with_losses: None,
                    is_unproven: false,
                });
                broken.models.add(ModelSet::of(source.model(index)));
            }
        }
        swept
    }

    #[test]
    fn each_state_is_one_of_its_recording() {
        let trace = trace();
        let recordings = recordings(&trace);
        let mut counts = [0; 3];
        for index in 0..recordings.len() {
            let (place, own) = recordings.place(index);
            assert_eq!(own, counts[place], "in order");
            counts[place] += 1;
            let (recording, again) = recordings.find(index);
            assert_eq!(
                (recording.trace.schedule(), again),
                (&*recordings.schedules()[place], own)
            );
        }
        let lens = recordings.members.iter().map(|member| member.space.len());
        assert!(lens.eq(counts), "{counts:?}");
        assert!(counts[0] < counts[2] && counts[2] < counts[1], "{counts:?}");
        // Their disks are not those of another one.
        let mut source = recordings.source().expect("a source");
        let keys = (0..recordings.len()).map(|index| source.make(index).state.expect("a disk").key);
        let different = keys.collect::<HashSet<_>>().len() as u64;
        // The disk that was sent nothing is the same in all of them.
        assert!(
            different > counts[1] / 2 + counts[2] / 2,
            "{different} of {counts:?}"
        );
    }

    /// `--states prefix` asks for no moment between two writes.
    #[test]
    fn the_power_fails_after_each_write_of_a_recovery() {
        let states = "prefix".parse().expect("states");
        let explore = Explore::BruteForce;
        let request = BlockRequest { explore, states };
        let count = |trace: &Trace| {
            let recordings = Recordings::new(trace, &request, &[]).expect("a space");
            recordings.len()
        };
        let mut recovery = recording("quiet", 4);
        assert_eq!(count(&recovery), 2);
        recovery.about.recovers = Some(Recovers::default());
        // It is recovered from once more.
        assert_eq!(count(&recovery), 5);
        let mut trace = recording("quiet", 4);
        trace.recoveries.push(recovery);
        let recoveries = Recordings::of_recoveries(&trace, &request).expect("a space");
        assert_eq!(recoveries.len(), 5);
        assert_eq!(recoveries.states(states).to_string(), "every-write");
    }

    #[test]
    fn a_level_without_any_recovery_says_what_came_of_the_attempts() {
        let mut trace = trace();
        let levels = |trace: &Trace| {
            let request = request(None);
            let levels = without_recoveries(trace, &request);
            let words = |(_, level): (_, Summary)| (level.model, level.recoveries);
            levels.map(words).collect::<Vec<_>>()
        };
        assert!(levels(&trace).is_empty());
        let counts = |not_ok| {
            Some(RecoveryCounts {
                not_ok,
                ..RecoveryCounts::default()
            })
        };
        (trace.about.recoveries, trace.about.disk_recoveries) = (counts(3), counts(4));
        let of_disk = ("ext4 on disk, again".to_owned(), counts(4));
        let of_calls = ("posix, again".to_owned(), counts(3));
        assert_eq!(levels(&trace), [of_calls.clone(), of_disk]);
        // This one has a level with states.
        trace.recoveries.push(recording("quiet", 1));
        assert_eq!(levels(&trace), [of_calls]);
    }

    #[test]
    fn it_is_said_of_how_many_disks_fua_was_not_recognised() {
        let mut trace = trace();
        assert_eq!(recordings(&trace).fua_words(), None);
        let other = &mut trace.others[0].disks;
        let disk = other.get_mut("program").expect("it has one");
        disk.log.set_recognises_fua(false);
        let words = recordings(&trace)
            .fua_words()
            .expect("one is not recognised");
        assert!(words.starts_with("on 1 of 3 disks, "), "{words}");
    }

    #[test]
    fn what_is_alike_in_several_recordings_is_one_finding() {
        let trace = trace();
        let recordings = recordings(&trace);
        let everywhere = |place, own| (place != 1 && own == 2).then(|| "lost".to_owned());
        let found = recordings
            .findings(&swept(&recordings, everywhere), false)
            .expect("findings");
        assert_eq!(found.len(), 1, "{found:#?}");
        assert_eq!(found[0].seen_under, ["quiet", "writeback"]);
        assert_eq!(found[0].recorded_under, ["quiet", "neighbour", "writeback"]);
        assert_eq!((found[0].number, found[0].states), (1, 4));
        assert_eq!(found[0].different, 2);
        // It shows the smallest one, that of the quiet disk.
        assert_eq!(recordings.place(found[0].state), (0, 2));
    }

    #[test]
    fn a_state_that_several_recordings_share_was_seen_in_all_of_them() {
        let trace = trace();
        let recordings = recordings(&trace);
        // The disk that was sent nothing is the same whatever the schedule.
        let first = |_, own| (own == 0).then(|| "lost".to_owned());
        let found = recordings
            .findings(&swept(&recordings, first), false)
            .expect("findings");
        assert_eq!(found.len(), 1, "{found:#?}");
        assert_eq!(found[0].seen_under, ["quiet", "neighbour", "writeback"]);
    }

    #[test]
    fn a_finding_of_a_later_recording_has_its_number_among_all_states() {
        let trace = trace();
        let recordings = recordings(&trace);
        let later = |place, own| (place == 2 && own == 3).then(|| "lost".to_owned());
        let found = recordings
            .findings(&swept(&recordings, later), false)
            .expect("findings");
        assert_eq!(found.len(), 1, "{found:#?}");
        assert_eq!(found[0].seen_under, ["writeback"]);
        assert_eq!(recordings.place(found[0].state), (2, 3));
        let made = recordings.source().expect("a source").make(found[0].state);
        assert_eq!(made.state.expect("a disk").key, found[0].key);
        let text = found[0].text();
        assert!(text.contains("seen in 1 of 3: writeback\n"), "{text}");
    }

    #[test]
    fn other_words_are_another_finding() {
        let trace = trace();
        let recordings = recordings(&trace);
        let words = ["lost", "torn", "lost"];
        let each = |place: usize, own| (own == 2).then(|| words[place].to_owned());
        let found = recordings
            .findings(&swept(&recordings, each), false)
            .expect("findings");
        let seen: Vec<_> = found
            .iter()
            .map(|finding| finding.seen_under.join(" "))
            .collect();
        assert_eq!(seen.len(), 2, "{found:#?}");
        assert!(seen.contains(&"quiet writeback".into()) && seen.contains(&"neighbour".into()));
    }
}
