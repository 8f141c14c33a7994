//! Where a run is made.

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use super::worse::Worse;
use block_dev::{Fault, Onlooker, Predicate};
use cluster::{Areas, ClusterFile, Ending, Member, Reading, Result, Verdict};
use pace_rules::disk::{Log, Relaxation};
use simulation::{Carried, Limit, Ports, Until};

use super::calls::Calls;
use super::looks::Look;

/// A command that was started in the place of a client.
pub type ProgramId = usize;

/// Says what a disk with this log loses; the node comes first.
pub type Loses<'a> = dyn FnMut(usize, &Log) -> Relaxation + 'a;

/// A cluster, as far as a run of a plan needs it: its nodes, its links, and places for its clients.
/// A plan, its triggers and its check do not know which ground it is.
///
/// Times are since the ground was made. What takes a while lets them pass.
pub trait Ground {
    /// What the cluster is made of.
    fn file(&self) -> &ClusterFile;

    /// The time.
    fn now(&self) -> Duration;

    /// Lets time pass until something may have happened, a few milliseconds at most.
    ///
    /// # Errors
    /// If the ground does not go on.
    fn pass(&mut self) -> Result<()>;

    /// Whether nodes have kernels of their own, so that they are traced inside of their machines.
    fn traces_inside(&self) -> bool;

    /// Has system calls of nodes be decided about there, from the first start on.
    ///
    /// # Errors
    /// If this ground cannot.
    fn follow_calls(&mut self, calls: &Rc<Calls>) -> Result<()>;

    /// Waits until what was decided about system calls so far holds, and all is known that came of it.
    ///
    /// # Errors
    /// If a tracer does not say so.
    fn agree_on_calls(&mut self) -> Result<()>;

    /// How long the probe need not be asked while nobody waits for what it says. To ask costs little
    /// where time passes anyway.
    fn probe_rests(&self) -> Duration {
        Duration::ZERO
    }

    /// Starts the nodes, makes so many places for clients, and prepares the cluster. What is there
    /// then is durable.
    ///
    /// # Errors
    /// If the cluster does not start, is not ready, or cannot be prepared.
    fn start(&mut self, places: usize) -> Result<()>;

    /// Kills all nodes.
    fn end(&mut self);

    /// The log of a node.
    fn log(&self, node: usize) -> PathBuf;

    /// Where the log of a node was when its command was started, if that runs.
    ///
    /// # Errors
    /// If that cannot be known.
    fn logs_since(&mut self, node: usize) -> Result<Option<u64>>;

    /// The nodes that have ended by themselves since this was last asked, and how.
    fn ends(&mut self) -> Vec<(usize, String)>;

    /// Whether a node was started, and has neither ended nor been killed since.
    ///
    /// # Errors
    /// If that cannot be known.
    fn is_running(&mut self, node: usize) -> Result<bool>;

    /// Whether a node is ready.
    ///
    /// # Errors
    /// [`cluster::Error::NotReady`] if it has ended, or is not ready in its time.
    /// [`cluster::Error::Unable`] if that says nothing of it.
    fn is_ready(&mut self, node: usize) -> Result<bool>;

    /// From now on a node that is not ready has its time to be.
    fn begin_time(&mut self, node: usize);

    /// Kills all processes of nodes.
    ///
    /// # Errors
    /// If they cannot be killed.
    fn kill(&mut self, nodes: &[usize]) -> Result<()>;

    /// The power of nodes fails, silently: of all before the first disk is looked at. Disks that failed
    /// requests answer as ever when they are mounted again, and not before. Returns how many writes
    /// the disk of each has lost.
    ///
    /// # Errors
    /// If one has no disk, or it cannot be used any more.
    fn power_loss(&mut self, nodes: &[usize], loses: &mut Loses) -> Result<Vec<usize>>;

    /// Stops all processes of nodes; their kernels go on.
    ///
    /// # Errors
    /// If they cannot be stopped.
    fn pause(&mut self, nodes: &[usize]) -> Result<()>;

    /// Has the machines of nodes stand still, with their kernels and clocks.
    ///
    /// # Errors
    /// If this ground cannot do that.
    fn freeze(&mut self, nodes: &[usize]) -> Result<()>;

    /// Has the time of day of nodes jump by so many nanoseconds.
    ///
    /// # Errors
    /// If this ground cannot do that, or the clock of one is not where it should be then: none has
    /// jumped, as far as that can be.
    fn move_clocks(&mut self, nodes: &[usize], by_ns: i64) -> Result<()>;

    /// Has them jump back. A machine that has booted since has its own time already.
    ///
    /// # Errors
    /// If the clock of one is not where it was.
    fn move_clocks_back(&mut self, nodes: &[usize], by_ns: i64) -> Result<()>;

    /// Has the clocks of nodes run so many parts of a million faster.
    ///
    /// # Errors
    /// If this ground cannot do that, or one drifts by a fault already: then none does that did not.
    fn drift_clocks(&mut self, nodes: &[usize], ppm: i32) -> Result<()>;

    /// Has them run as before. What they have gained stays.
    ///
    /// # Errors
    /// If one has not counted what it should have.
    fn end_drifts(&mut self, nodes: &[usize]) -> Result<()>;

    /// Has the disk of a node do so the first so many requests of which `hits` is true.
    ///
    /// # Errors
    /// If it has none.
    fn answer_some(&mut self, node: usize, how: (Fault, u64), hits: Predicate) -> Result<()>;

    /// Which parts of the disk of a node hold what, if its file system is one of which that is known.
    ///
    /// # Errors
    /// If it has none.
    fn areas(&mut self, node: usize) -> Result<Option<Areas>>;

    /// Has somebody look at what the disk of a node is asked for from now on. In namespaces nobody does at what
    /// Crashpoint asks of it by itself, to mount it or to start the node.
    ///
    /// # Errors
    /// If it has none.
    fn look_at_requests(&mut self, node: usize, onlooker: Arc<dyn Onlooker>) -> Result<()>;

    /// Has it answer all of them as ever again.
    ///
    /// # Errors
    /// If it has none.
    fn spare_requests(&mut self, node: usize) -> Result<()>;

    /// Has nodes go on that stand still; others are left as they are.
    ///
    /// # Errors
    /// If they do not.
    fn resume(&mut self, nodes: &[usize]) -> Result<()>;

    /// Starts a node again. It may not be ready yet.
    ///
    /// # Errors
    /// If it cannot be started.
    fn restart(&mut self, node: usize) -> Result<()>;

    /// From now on the directory of data of each node is looked at right before the node is started again,
    /// while nothing of it runs.
    fn look_at_data(&mut self, reading: Reading);

    /// Kills all nodes, and looks at their directories of data, as far as these are there.
    ///
    /// # Errors
    /// If nodes cannot be killed, or the ground does not go on.
    fn look_at_the_end(&mut self) -> Result<()>;

    /// What was seen of directories of data since this was last asked.
    fn looks(&mut self) -> Vec<Look>;

    /// Loses what is sent in these directions.
    ///
    /// # Errors
    /// If just these and those that were cut before are not cut then.
    fn cut(&mut self, directions: &[(Member, Member)]) -> Result<()>;

    /// Ends that.
    ///
    /// # Errors
    /// If just the others are not cut then.
    fn heal(&mut self, directions: &[(Member, Member)]) -> Result<()>;

    /// Has all links be as ever: none is cut or worse.
    ///
    /// # Errors
    /// If a link is cut then.
    fn heal_all(&mut self) -> Result<()>;

    /// Cuts directions together once a limit is reached by what passes from now on in those that count,
    /// where it passes. There is one such limit at a time.
    ///
    /// # Errors
    /// If they do not have just this limit then.
    fn cut_once(
        &mut self,
        cut: &[(Member, Member)],
        counted: &[(Member, Member)],
        until: Until,
    ) -> Result<()>;

    /// That limit, and what has passed.
    fn limited(&self) -> Option<Limit>;

    /// When it was reached, if it was: nothing has passed since.
    fn limit_reached(&self) -> Option<Duration>;

    /// Fails if the directions that are to have a limit do not pass what it lets pass.
    ///
    /// # Errors
    /// So, or if that cannot be known.
    fn verify_limit(&mut self) -> Result<()>;

    /// Has directions whose limit is reached be cut as others are, without a gap.
    ///
    /// # Errors
    /// As of [`Self::cut`].
    fn cut_limited(&mut self) -> Result<()>;

    /// Takes a limit away.
    ///
    /// # Errors
    /// If one is there then.
    fn lift_limit(&mut self) -> Result<()>;

    /// Counts from now on what is sent. The cluster has been started.
    ///
    /// # Errors
    /// If this ground cannot.
    fn count_sent(&mut self) -> Result<()>;

    /// What was sent in these directions since it is counted, lost or not.
    fn carried(&self, directions: &[(Member, Member)]) -> Carried;

    /// What of nodes has passed to one other since it is counted, by the ports that last. In namespaces what
    /// was lost counts too.
    fn passed_by_ports(&self) -> Vec<((usize, usize), Ports, Carried)>;

    /// How many messages were lost, up to now, before they could be counted or held against a limit.
    fn uncounted(&self) -> u64;

    /// Has links in these directions be worse, or as ever.
    ///
    /// # Errors
    /// If this ground cannot do that.
    fn set_links(&mut self, directions: &[(Member, Member)], worse: Option<Worse>) -> Result<()>;

    /// Starts a command in the place of a client, with these variables in its environment.
    ///
    /// # Errors
    /// If it cannot be started.
    fn run(
        &mut self,
        place: usize,
        whose: &str,
        words: &[String],
        variables: &[(&str, String)],
    ) -> Result<ProgramId>;

    /// The lines that it has printed and that were not taken yet, each with the time at which it came.
    /// Those that came before the time of this call are all there.
    ///
    /// # Errors
    /// If they cannot be read.
    fn lines(&mut self, program: ProgramId) -> Result<Vec<(Duration, Vec<u8>)>>;

    /// How much later than it was printed a line may seem to have come.
    fn lines_are_late_by(&self) -> Duration;

    /// Gives it a line to read.
    fn ask(&mut self, program: ProgramId, line: &str);

    /// How it ended, if it has, and all of its lines were taken.
    ///
    /// # Errors
    /// If that cannot be known.
    fn ended(&mut self, program: ProgramId) -> Result<Option<Ending>>;

    /// Asks it to end (SIGTERM).
    fn ask_to_end(&mut self, program: ProgramId);

    /// Kills it, if it runs.
    fn forget(&mut self, program: ProgramId);

    /// Asks the check about the lines in a file.
    ///
    /// # Errors
    /// If it cannot be run.
    fn check(&mut self, acknowledgements: &Path) -> Result<Verdict>;
}
