//! Clients that take turns, and faults between their operations.

use std::cell::RefCell;

use super::*;

/// What a client is like.
#[derive(Clone, Copy, Default, PartialEq)]
enum Is {
    /// It does an operation for each line that it reads.
    #[default]
    Right,
    /// It does nothing for it.
    Idle,
    /// It never answers.
    Hangs,
    /// It does not wait for its first turn.
    Early,
}

/// A turn that was given, and how many directions were cut then.
type Given = (ProgramId, usize);

/// Clients that take turns, and end after a few each.
#[derive(Default)]
pub(super) struct Takers {
    is: Vec<Is>,
    left: Vec<usize>,
    given: Rc<RefCell<Vec<Given>>>,
    says: Vec<(ProgramId, &'static str)>,
}

const CALL: &str = "{\"type\":\"invoke\",\"process\":0,\"f\":\"read\"}";
const ANSWER: &str = "{\"type\":\"ok\",\"process\":0,\"f\":\"read\"}";

impl Takers {
    fn of(is: &[Is], turns: usize) -> Self {
        let early = is.iter().position(|is| *is == Is::Early);
        Self {
            is: is.to_vec(),
            left: vec![turns; is.len()],
            given: Rc::default(),
            says: early.map(|program| (program, CALL)).into_iter().collect(),
        }
    }

    pub(super) fn ask(&mut self, program: ProgramId, line: &str, cuts: usize) {
        if self.is.is_empty() {
            return;
        }
        assert_eq!(line, "turn");
        self.given.borrow_mut().push((program, cuts));
        self.left[program] = self.left[program].saturating_sub(1);
        let says: &[_] = match self.is[program] {
            Is::Right => &[CALL, ANSWER],
            Is::Idle => &[],
            Is::Hangs => &[CALL],
            Is::Early => &[ANSWER],
        };
        self.says.extend(says.iter().map(|line| (program, *line)));
    }

    /// What a client prints next.
    pub(super) fn line(
        &mut self,
        program: ProgramId,
        now: Duration,
    ) -> Option<(Duration, Vec<u8>)> {
        let place = self.says.iter().position(|(by, _)| *by == program)?;
        Some((now, self.says.remove(place).1.as_bytes().to_vec()))
    }

    /// Whether a client goes on.
    pub(super) fn goes_on(&self, program: ProgramId) -> bool {
        let says = self.says.iter().any(|(by, _)| *by == program);
        let waits = self.is.get(program).is_some_and(|is| *is != Is::Right);
        says || waits || self.left.get(program).is_some_and(|left| *left > 0)
    }
}

/// Two clients that take turns for half a second each at most.
const TURNS: &str = "turns = [\"a\", \"b\", \"b\"]\nturn_within_s = 0.5\n\
                     [[nodes]]\nnames = [\"x\", \"y\", \"z\"]\ncommand = \"sh\"\n\
                     [[clients]]\nname = \"a\"\ncommand = \"sh\"\nwithin_s = 2\n\
                     [[clients]]\nname = \"b\"\ncommand = \"sh\"\nwithin_s = 2\n\
                     [check]\ncommand = \"sh\"\n";

/// The run of a plan with such clients, and the turns that were given.
fn run_with(is: [Is; 2], plan: &str) -> (Ran, Vec<Given>) {
    let mut ground = Still::of(TURNS);
    ground.takers = Takers::of(&is, 3);
    let given = Rc::clone(&ground.takers.given);
    let ran = ground.run(plan);
    let given = given.borrow().clone();
    (ran, given)
}

/// Links are cut from one acknowledged operation on, until there are two more.
const CUT: &str = "[[faults]]\nat = { acknowledged = 2 }\nfault = \"partition\"\non = \"x\"\n\
                   until = { acknowledged_more = 2 }\n";

#[test]
fn turns_come_in_order_and_what_an_answer_brings_about_is_there_before_the_next_turn() {
    let (ran, given) = run_with([Is::Right; 2], CUT);
    assert!(matches!(ran.judged, Judged::Ok), "{ran:?}");
    assert_eq!(ran.notes, Vec::<String>::new());
    let order: Vec<_> = given.iter().map(|(program, _)| *program).collect();
    // The second one has ended after its third turn.
    assert_eq!(order, [0, 1, 1, 0, 1, 0]);
    let are_cut: Vec<_> = given.iter().map(|(_, cuts)| *cuts > 0).collect();
    assert_eq!(are_cut, [false, false, true, true, false, false]);
}

#[test]
fn a_fault_of_the_start_comes_before_the_first_turn() {
    let (_, given) = run_with(
        [Is::Right; 2],
        &CUT.replace("acknowledged = 2", "time_s = 0"),
    );
    assert!(given[0].1 > 0, "{given:?}");
}

/// Why a run is inconclusive.
fn why(ran: &Ran) -> &str {
    match &ran.judged {
        Judged::Inconclusive { why } => why,
        _ => panic!("{ran:?}"),
    }
}

#[test]
fn clients_that_do_not_heed_turns_are_told_and_others_go_on() {
    let (ran, given) = run_with([Is::Idle, Is::Right], CUT);
    let words = "client a had its turn, and began no operation within 500ms: it has to read a line";
    assert!(why(&ran).contains(words), "{ran:?}");
    let order: Vec<_> = given.iter().map(|(program, _)| *program).collect();
    assert_eq!(order, [0, 1, 1, 1]);

    let (ran, _) = run_with([Is::Right, Is::Early], CUT);
    let words = "client b began an operation without its turn";
    assert!(why(&ran).contains(words), "{ran:?}");
}

#[test]
fn an_operation_without_an_answer_is_no_disorder_and_is_told() {
    let (ran, given) = run_with([Is::Hangs, Is::Right], CUT);
    let order: Vec<_> = given.iter().map(|(program, _)| *program).collect();
    assert_eq!(order, [0, 1, 1, 1]);
    let words = "client a did not answer within 500ms in 1 of its turns, so others went on";
    assert!(ran.notes.iter().any(|note| note == words), "{ran:?}");
    assert!(!format!("{ran:?}").contains("without its turn"), "{ran:?}");
}
