//! How a fault reaches a system call or a packet on the running kernel, and what each way costs: the
//! ways that Crashpoint takes beside those that it could take. One run measures all of them, in turn,
//! on the same processors.
//!
//!   make bench-reach [ROUNDS=15]
//!
//! It needs root and Linux 6.6. Everything that it makes has no name, and goes with its processes
//! whoever ends them: namespaces, the rules in them, and files without a link.

mod calls;
mod network;
mod packets;
mod queue;
mod rounds;
mod tap;

use std::process::ExitCode;

use rounds::Outcome;

/// The first argument of this program where it is started to be measured.
const CALLER: &str = "caller";
const ASKER: &str = "asker";
const ANSWERER: &str = "answerer";

fn run() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        [CALLER, ..] => return calls::call(&words[1..]),
        [ASKER, ..] => return packets::ask(&words[1..]),
        [ANSWERER, ..] => return packets::answer(&words[1..]),
        _ => {}
    }
    // Cargo adds a word of its own.
    let number = words.iter().find(|word| !word.starts_with('-'));
    let rounds = number.map_or(Ok(15), |number| number.parse());
    let rounds = rounds.map_err(|_| "the one argument is a number of rounds")?;
    rounds::say_where(rounds)?;
    calls::measure(rounds)?;
    packets::measure(rounds)
}

fn main() -> ExitCode {
    if let Some(ended) = cluster::run_hidden().or_else(machine::run_hidden) {
        return ended;
    }
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}
