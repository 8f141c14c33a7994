//! Triggers that are made of others: all of several, any of several, and one after another.

use std::time::Duration;

use super::plan::{Awaited, Trigger};

impl Trigger {
    /// Whether it is made of others.
    pub(super) fn is_combined(&self) -> bool {
        self.then.is_some() || !self.awaited.parts().is_empty()
    }

    /// All single things that it waits for.
    pub(super) fn single(&self) -> Vec<&Awaited> {
        let mut all: Vec<_> = match self.awaited.parts() {
            [] => vec![&self.awaited],
            parts => parts.iter().flat_map(Self::single).collect(),
        };
        all.extend(self.then.iter().flat_map(|then| then.single()));
        all
    }

    /// It, without what is waited for after it.
    pub(super) fn alone(&self) -> Self {
        Self {
            then: None,
            ..self.clone()
        }
    }

    /// Whether it may fire at a call or a request that is held there.
    pub(super) fn fires_at_what_is_held(&self) -> bool {
        self.fires_at(|awaited| matches!(awaited, Awaited::Call { .. } | Awaited::Request { .. }))
    }

    /// Whether it may fire at a request that is held there.
    pub(super) fn fires_at_a_request(&self) -> bool {
        self.fires_at(|awaited| matches!(awaited, Awaited::Request { .. }))
    }

    /// Whether what it fires with may be such a thing, without a delay.
    fn fires_at(&self, is_held: fn(&Awaited) -> bool) -> bool {
        match (&self.then, &self.awaited) {
            (Some(then), _) => then.fires_at(is_held),
            _ if !self.delay.is_zero() => false,
            (None, Awaited::Any(parts)) => parts.iter().any(|part| part.fires_at(is_held)),
            (None, awaited) => is_held(awaited),
        }
    }

    /// All that it becomes without one of its parts. Nothing, if it has none.
    pub(super) fn smaller(&self) -> Vec<Self> {
        let mut all = Vec::new();
        if let Some(then) = &self.then {
            all.push((**then).clone());
            if then.then.is_none() {
                all.push(self.alone());
            }
            let smaller = then.smaller().into_iter();
            all.extend(smaller.map(|then| Self {
                then: Some(Box::new(then)),
                ..self.clone()
            }));
        }
        let parts = self.awaited.parts();
        for (place, part) in parts.iter().enumerate() {
            let with = |part: Option<Self>| {
                let mut parts = parts.to_vec();
                parts.splice(place..=place, part);
                self.of(parts)
            };
            all.push(with(None));
            all.extend(part.smaller().into_iter().map(|part| with(Some(part))));
        }
        all
    }

    /// The same of other parts.
    fn of(&self, mut parts: Vec<Self>) -> Self {
        if parts.len() == 1 {
            return parts.remove(0).before(self.delay, self.then.clone());
        }
        Self {
            awaited: match self.awaited {
                Awaited::All(_) => Awaited::All(parts),
                _ => Awaited::Any(parts),
            },
            ..self.clone()
        }
    }

    /// It, with more that comes after it.
    fn before(mut self, delay: Duration, then: Option<Box<Self>>) -> Self {
        if let Some(next) = self.then.take() {
            self.then = Some(Box::new(next.before(delay, then)));
        } else {
            self.delay += delay;
            self.then = then;
        }
        self
    }
}

impl Awaited {
    /// The triggers that it is made of.
    pub(super) fn parts(&self) -> &[Trigger] {
        match self {
            Self::All(parts) | Self::Any(parts) => parts,
            _ => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::given::{cluster_of, plan_of};
    use super::super::plan::FaultPlan;
    use super::*;

    const CLUSTER: &str = "[[nodes]]\nnames = [\"a\", \"b\"]\ncommand = \"sh\"\n\
                           [client]\ncommand = \"sh\"\n[probe]\ncommand = \"sh\"\n\
                           roles = [\"leader\", \"follower\"]\n";

    /// A plan of two faults, of which the second one waits for something.
    fn plan(at: &str) -> Result<FaultPlan, String> {
        let first = "[[faults]]\nat = { time_s = 1 }\nfault = \"kill\"\non = \"a\"\n";
        let text = format!("{first}[[faults]]\nat = {at}\nfault = \"kill\"\non = \"a\"\n");
        plan_of(&text, &cluster_of(CLUSTER))
    }

    fn trigger(at: &str) -> Trigger {
        plan(at).expect("a plan").faults[1].at.clone()
    }

    /// All triggers of these that are made of two of them.
    fn of_two(all: &[String]) -> Vec<String> {
        let mut of_two = Vec::new();
        for (one, other) in all.iter().zip(all.iter().rev()) {
            let open = one.strip_suffix(" }").expect("a table");
            if !one.contains("then") {
                of_two.push(format!("{open}, then = {other} }}"));
            }
            of_two.push(format!("{{ any = [{one}, {other}] }}"));
            of_two.push(format!(
                "{{ all = [{other}, {one}, {one}], delay_s = 0.5 }}"
            ));
        }
        of_two
    }

    #[test]
    fn what_is_made_of_others_is_read_again_as_it_was_printed() {
        let simple = [
            "{ time_s = 1.5 }",
            "{ after_s = 0.5, delay_s = 0.25 }",
            "{ acknowledged_more = 3, client = \"client\" }",
            "{ log = \"say \\\"x\\\"\", node = \"b\" }",
            "{ changed = \"leader\" }",
            "{ value_changed = \"term\" }",
            "{ value_changed = \"applied\", node = \"a\" }",
            "{ call = \"fsync\", path = \"*.wal\", nth = 3, node = \"leader\", when = \"after\" }",
            "{ bytes = 4096, from = \"hit\", to = [\"a\", \"all follower\"] }",
            "{ ended = true }",
        ];
        let simple = simple.map(str::to_owned).to_vec();
        let twice = of_two(&simple);
        let all = [&simple[..], &twice, &of_two(&twice)].concat();
        assert!(all.len() > 100);
        for at in all {
            let read = plan(&at).unwrap_or_else(|why| panic!("{at}: {why}"));
            assert_eq!(read.faults[1].at.to_string(), at);
            assert!(read.needs_roles() || !at.contains("leader"), "{at}");
            assert_eq!(read.needs_calls(), at.contains("call"), "{at}");
            assert_eq!(read.needs_counts(), at.contains("bytes"), "{at}");
        }
    }

    #[test]
    fn what_cannot_be_is_refused_where_it_is_said() {
        let said = |at: &str| plan(at).expect_err("it is wrong");
        assert_eq!(
            said("{ any = [{ time_s = 1 }] }"),
            "p.toml:6:14: `any` is of two triggers or more: say one without it"
        );
        assert!(said("{ all = [] }").starts_with("p.toml:6:14: `all` is of two"));
        let both = said("{ all = [{ time_s = 1 }, { lines = 1 }], log = \"x\" }");
        assert!(
            both.starts_with("p.toml:6:6: one thing is waited for"),
            "{both}"
        );
        let none = said("{ delay_s = 1, then = { time_s = 1 } }");
        assert!(none.starts_with("p.toml:6:6: it says not what"), "{none}");
        let inner = said("{ time_s = 1, then = { any = [{ lines = 1 }, { lines = 0 }] } }");
        assert!(
            inner.starts_with("p.toml:6:51: it is counted from 1 on"),
            "{inner}"
        );
        let unknown = said("{ time_s = 1, then = { fires = 1 } }");
        assert!(
            unknown.starts_with("p.toml:6:29: unknown field `fires`"),
            "{unknown}"
        );
        let whose = said("{ all = [{ lines = 1 }, { time_s = 1 }], node = \"a\" }");
        assert!(whose.contains("`node` is only for log, role, value_changed, call and request"));
        let word = said("{ value_changed = \"a b\" }");
        assert!(
            word.starts_with("p.toml:6:24: a value is named by one word"),
            "{word}"
        );
    }

    #[test]
    fn a_call_that_would_be_held_while_others_are_waited_for_is_refused() {
        let (call, line) = ("{ call = \"write\" }", "{ log = \"x\" }");
        let refused = |at: &str, column: usize| {
            let said = plan(at).expect_err("it is wrong");
            let place = format!(
                "p.toml:6:{column}: a call or request in `all` cannot be held exactly there"
            );
            assert!(said.starts_with(&place), "{at}: {said}");
        };
        refused(&format!("{{ all = [{call}, {line}] }}"), 15);
        refused(
            &format!("{{ all = [{line}, {{ log = \"y\", then = {call} }}] }}"),
            30,
        );
        refused(
            &format!("{{ all = [{line}, {{ any = [{line}, {call}] }}], then = {line} }}"),
            30,
        );
        let late = "{ call = \"write\", delay_s = 0.1 }";
        for at in [
            format!("{{ any = [{call}, {line}] }}"),
            format!("{{ all = [{late}, {line}] }}"),
            format!("{{ all = [{call}, {line}], delay_s = 0.1 }}"),
            format!("{{ all = [{{ call = \"write\", then = {line} }}, {line}], then = {call} }}"),
        ] {
            assert!(plan(&at).is_ok(), "{at}");
        }
    }

    #[test]
    fn a_part_of_the_first_trigger_comes_after_no_fault_and_may_come_after_a_part() {
        let first = |at: &str| {
            let text = format!("[[faults]]\nat = {at}\nfault = \"kill\"\non = \"a\"\n");
            plan_of(&text, &cluster_of(CLUSTER)).map(|_| ())
        };
        let wrong = first("{ any = [{ lines = 1 }, { after_s = 1 }] }").expect_err("no fault");
        assert!(
            wrong.starts_with("p.toml:2:30: there is no fault before"),
            "{wrong}"
        );
        assert!(first("{ lines = 1, then = { ended = true } }").is_err());
        assert!(first("{ lines = 1, then = { call = \"write\", node = \"hit\" } }").is_err());
        let after = "{ lines = 1, then = { any = [{ log = \"x\" }, { after_s = 1 }] } }";
        assert_eq!(first(after), Ok(()));
    }

    #[test]
    fn each_part_may_be_taken_away() {
        let smaller = |at: &str| {
            let all = trigger(at).smaller().into_iter();
            all.map(|one| one.to_string()).collect::<Vec<_>>()
        };
        assert!(smaller("{ log = \"x\", delay_s = 1 }").is_empty());
        let (a, b, c) = ("{ lines = 1 }", "{ lines = 2 }", "{ lines = 3 }");
        assert_eq!(smaller(&format!("{{ any = [{a}, {b}] }}")), [b, a]);
        let of = |parts: &[&str]| format!("{{ all = [{}] }}", parts.join(", "));
        let expected = [of(&[b, c]), of(&[a, c]), of(&[a, b])];
        assert_eq!(smaller(&of(&[a, b, c])), expected);
        assert_eq!(
            smaller("{ lines = 1, delay_s = 1, then = { lines = 2, then = { lines = 3 } } }"),
            [
                "{ lines = 2, then = { lines = 3 } }",
                "{ lines = 1, delay_s = 1.0, then = { lines = 3 } }",
                "{ lines = 1, delay_s = 1.0, then = { lines = 2 } }",
            ]
        );
        // What comes after all of them comes after the one that is left, and after what comes after that.
        assert_eq!(
            smaller(
                "{ all = [{ lines = 1 }, { lines = 2, then = { lines = 3, delay_s = 1 } }], delay_s = 2 }"
            ),
            [
                "{ lines = 2, then = { lines = 3, delay_s = 3.0 } }",
                "{ lines = 1, delay_s = 2.0 }",
                "{ all = [{ lines = 1 }, { lines = 3, delay_s = 1.0 }], delay_s = 2.0 }",
                "{ all = [{ lines = 1 }, { lines = 2 }], delay_s = 2.0 }",
            ]
        );
    }
}
