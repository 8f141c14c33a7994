//! Roles that nodes log.

use tempfile::TempDir;

use super::super::super::roles::Probe;
use super::*;

/// A node that logs what it is.
const FILE: &str = "[[nodes]]\nname = \"a\"\ncommand = \"sh\"\n[client]\ncommand = \"sh\"\n\
                    [check]\ncommand = \"sh\"\n\
                    [probe]\nroles = [\"leader\", \"follower\"]\n\
                    [[probe.log]]\nrole = \"leader\"\nline = 'leads at term (?<term>\\d+)'\n\
                    [[probe.log]]\nrole = \"follower\"\nline = \"follows\"\n\
                    [[probe.log]]\nrole = \"\"\nline = \"stops\"\n";

struct Logging {
    ground: Still,
    probe: Probe,
    _folder: TempDir,
}

impl Logging {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a directory");
        let mut ground = Still::of(FILE);
        ground.log = folder.path().join("a.log");
        let probe = Probe::new(ground.file.probe.as_ref().expect("there is one"), 1);
        assert!(!probe.needs_place());
        Self {
            ground,
            probe,
            _folder: folder,
        }
    }

    fn log(&self, line: &str) {
        self.ground.log_line(Some(line.to_owned()));
    }

    /// What is told at once, if anything is: what the node is.
    fn told(&mut self) -> Option<String> {
        let told = self.probe.look(&mut self.ground, Duration::from_secs(5))?;
        let roles = told.expect("it can be read");
        assert_eq!(roles.asked, self.ground.now);
        let role = roles.of.get(&0);
        let told = role.map(|role| format!("{} {}", role.role, role.more));
        Some(told.unwrap_or_default().trim().to_owned())
    }

    /// The same when it has been told anyway.
    fn is(&mut self) -> String {
        self.ground.now += Duration::from_millis(100);
        self.told().expect("it is time to")
    }
}

#[test]
fn the_last_line_that_says_what_a_node_is_counts() {
    let mut logging = Logging::new();
    assert_eq!(logging.is(), "", "it has logged nothing");
    for (line, is) in [
        ("x: leads at term 3", "leader 3"),
        ("something else", "leader 3"),
        ("follows", "follower"),
        ("leads at term 4\nfollows\nleads at term 5", "leader 5"),
        ("leads at term 6 and follows", "leader 6"),
        ("stops", ""),
    ] {
        logging.log(line);
        assert_eq!(logging.is(), is, "{line}");
    }
}

#[test]
fn what_changes_is_told_at_once_and_all_else_after_a_while() {
    let mut logging = Logging::new();
    assert_eq!(logging.told().as_deref(), Some(""));
    assert_eq!(logging.told(), None);
    logging.log("follows");
    assert_eq!(logging.told().as_deref(), Some("follower"));
    logging.log("follows");
    assert_eq!(logging.told(), None);
    assert_eq!(logging.is(), "follower");
}

#[test]
fn a_node_that_is_down_is_nothing_and_one_that_was_started_again_is_what_it_has_logged_since() {
    let mut logging = Logging::new();
    logging.log("leads at term 3");
    assert_eq!(logging.is(), "leader 3");
    logging.ground.down.push(0);
    assert_eq!(logging.is(), "", "it is down");
    let begin_anew = |logging: &mut Logging| {
        let length = logging.ground.log.metadata().expect("it is there").len();
        logging.ground.logged_from = length;
        logging.ground.down.clear();
    };
    begin_anew(&mut logging);
    assert_eq!(logging.is(), "", "that was in its life before");
    logging.log("leads at term 4");
    assert_eq!(logging.is(), "leader 4");
    // It is killed and started again between two looks.
    begin_anew(&mut logging);
    assert_eq!(logging.is(), "", "that was in its life before");
}
