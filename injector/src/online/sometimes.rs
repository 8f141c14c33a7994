//! What should happen in some run of a campaign: one in which nothing of it did has looked at nothing
//! that is interesting, and is no pass.

use cluster::ClusterFile;

use super::plan::{Awaited, Trigger};
use super::triggers::{Seen, Waiting};

/// What should happen sometimes, by name: that of the cluster file, and with a probe that another
/// node has its first role.
pub fn conditions(file: &ClusterFile) -> Vec<(String, Awaited)> {
    let of_file = file.sometimes.iter().map(|sometimes| {
        let awaited = match (&sometimes.log, &sometimes.changed) {
            (Some(text), _) => Awaited::Log(None, text.clone()),
            (None, role) => Awaited::Changed(role.clone().unwrap_or_default()),
        };
        (sometimes.name.clone(), awaited)
    });
    let first_role = file.probe.iter().filter_map(|probe| probe.roles.first());
    let of_probe = first_role.map(|role| {
        let name = format!("another node is {role}");
        (name, Awaited::Changed(role.clone()))
    });
    of_file.chain(of_probe).collect()
}

/// Looks for all of them in a run.
pub(super) struct Reached {
    waiting: Vec<(String, Waiting)>,
    /// Those that happened.
    pub(super) reached: Vec<String>,
}

impl Reached {
    pub(super) fn new(seen: &Seen) -> Self {
        let waiting = conditions(seen.file).into_iter().map(|(name, awaited)| {
            let trigger = Trigger::at(awaited);
            (name, Waiting::new(&trigger, seen))
        });
        Self {
            waiting: waiting.collect(),
            reached: Vec::new(),
        }
    }

    /// The same in a fork; nothing, if something is waited for that cannot be there twice.
    pub(super) fn forked(&self) -> Option<Self> {
        let waiting = self.waiting.iter();
        let waiting = waiting.map(|(name, waiting)| Some((name.clone(), waiting.forked()?)));
        Some(Self {
            waiting: waiting.collect::<Option<_>>()?,
            reached: self.reached.clone(),
        })
    }

    pub(super) fn look(&mut self, seen: &Seen) {
        let happened = self
            .waiting
            .extract_if(.., |(_, waiting)| waiting.fires(seen));
        self.reached.extend(happened.map(|(name, _)| name));
    }
}
