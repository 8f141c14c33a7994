//! Who has which role, as the nodes log it.

use std::time::Duration;

use cluster::LogRole;

use super::ground::Ground;
use super::logs::LogTail;
use super::roles::{Role, Roles};

/// Reads in logs what nodes are: the last line that says so counts, of those since a node was started.
pub(super) struct LoggedRoles {
    lines: Vec<LogRole>,
    every: Duration,
    /// What is known of each node whose command runs.
    lives: Vec<Option<Life>>,
    told: Option<Duration>,
}

/// A node since it was started.
struct Life {
    /// Where its log was then.
    from: u64,
    tail: LogTail,
    role: Option<Role>,
}

impl LoggedRoles {
    pub(super) fn new(lines: &[LogRole], every: Duration) -> Self {
        Self {
            lines: lines.to_vec(),
            every,
            lives: Vec::new(),
            told: None,
        }
    }

    /// The same where all goes on from here as it does there, with logs of its own.
    pub(super) fn forked(&self, ground: &dyn Ground) -> Self {
        let lives = self.lives.iter().enumerate().map(|(node, life)| {
            life.as_ref().map(|life| Life {
                from: life.from,
                tail: life.tail.of_copy(ground.log(node)),
                role: life.role.clone(),
            })
        });
        Self {
            lines: self.lines.clone(),
            every: self.every,
            lives: lives.collect(),
            told: self.told,
        }
    }

    /// What they all are, if one of them has become something else, or it was not told for a while.
    pub(super) fn look(&mut self, ground: &mut dyn Ground) -> Option<Result<Roles, String>> {
        let nodes = ground.file().nodes.len();
        self.lives.resize_with(nodes, || None);
        let mut has_changed = false;
        for node in 0..nodes {
            match self.read(node, ground) {
                Ok(changed) => has_changed |= changed,
                Err(error) => return Some(Err(error.to_string())),
            }
        }
        let now = ground.now();
        let is_due = self.told.is_none_or(|told| now >= told + self.every);
        if !is_due && !has_changed {
            return None;
        }
        self.told = Some(now);
        let lives = self.lives.iter().enumerate();
        let roles = lives.filter_map(|(node, life)| Some((node, life.as_ref()?.role.clone()?)));
        Some(Ok(Roles {
            asked: now,
            of: roles.collect(),
            wrong: None,
        }))
    }

    /// Reads what a node has logged since. Whether it has become something else.
    fn read(&mut self, node: usize, ground: &mut dyn Ground) -> cluster::Result<bool> {
        let life = &mut self.lives[node];
        let before = life.as_ref().and_then(|life| life.role.clone());
        match ground.logs_since(node)? {
            None => *life = None,
            // Started again, if it has logged anything in its life before: else nothing is to be forgotten.
            Some(from) if life.as_ref().is_none_or(|life| life.from != from) => {
                *life = Some(Life {
                    from,
                    tail: LogTail::since(ground.log(node), from),
                    role: None,
                });
            }
            Some(_) => {}
        }
        if let Some(life) = life {
            for line in life.tail.lines() {
                let mut lines = self.lines.iter();
                let said = lines.find_map(|said| Some((&said.role, said.more(node, &line)?)));
                if let Some((role, more)) = said {
                    let role = role.clone();
                    life.role = role.map(|role| Role { role, more });
                }
            }
        }
        let after = life.as_ref().and_then(|life| life.role.clone());
        Ok(after != before)
    }
}
