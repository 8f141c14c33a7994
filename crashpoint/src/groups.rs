//! The commands as the help shows them: by what they are for, each with an example.

use clap::Command;

/// A heading, and below it commands with an example of each.
type Group = (&'static str, &'static [(&'static str, &'static str)]);

const GROUPS: [Group; 4] = [
    (
        "Test",
        &[
            (
                "fs",
                "crashpoint fs --fs ext4,btrfs --preset seq-1 --out results",
            ),
            (
                "app",
                "crashpoint app --check './check.sh {dir} {acks}' --out results -- ./save {dir}",
            ),
            (
                "cluster",
                "crashpoint cluster record cluster.toml -o trace && crashpoint cluster sweep trace",
            ),
            (
                "inject",
                "crashpoint inject cluster.toml --plan plan.toml --repeat 10\n  \
                 crashpoint inject cluster.toml --points\n  \
                 crashpoint inject cluster.toml --strategy exhaustive --max-failures 2 --budget 1h --out results/",
            ),
            (
                "history",
                "crashpoint history check history.jsonl --model register",
            ),
            ("merge", "crashpoint merge part1 part2 part3 --out results"),
        ],
    ),
    (
        "Look at findings",
        &[
            ("show", "crashpoint show results 1"),
            (
                "replay",
                "crashpoint replay results 1 --command 'ls -lR {}'",
            ),
            ("minimize", "crashpoint minimize results 1"),
            (
                "export",
                "crashpoint export results 1 --as script -o lost.sh",
            ),
            (
                "rules",
                "crashpoint rules results 1 'lost(K) :- acked(K), !served(K).'",
            ),
            (
                "report",
                "crashpoint report results --html report.html --junit report.xml",
            ),
        ],
    ),
    (
        "Record and replay elsewhere",
        &[
            ("run", "crashpoint run --on /mnt --mark log one.wl"),
            (
                "import",
                "crashpoint import --fs ext4 --log-writes log.img --base base.img one.wl",
            ),
            ("machine", "crashpoint machine -- uname -r"),
        ],
    ),
    (
        "Maintain",
        &[
            ("doctor", "crashpoint doctor"),
            ("clean", "crashpoint clean --dry-run"),
            ("bench", "crashpoint bench"),
            ("completions", "crashpoint completions bash"),
            ("man", "crashpoint man ./man"),
        ],
    ),
];

/// Gives the help of a command line its groups, and that of each command its example.
pub(crate) fn grouped(mut command: Command) -> Command {
    let mut text = String::new();
    for (heading, commands) in GROUPS {
        text += &format!("{heading}:\n");
        for (name, example) in commands {
            let about = command
                .find_subcommand(name)
                .and_then(Command::get_about)
                .map(ToString::to_string);
            text += &format!("  {name:11}  {}\n", about.unwrap_or_default());
            command =
                command.mut_subcommand(name, |of| of.after_help(format!("Example:\n  {example}")));
        }
        text.push('\n');
    }
    command.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{text}Options:\n{{options}}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_in_one_group() {
        let command = crate::command();
        let mut known: Vec<_> = command.get_subcommands().map(Command::get_name).collect();
        let mut grouped: Vec<_> = GROUPS
            .iter()
            .flat_map(|(_, commands)| commands.iter().map(|(name, _)| *name))
            .collect();
        known.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(grouped, known);
    }

    #[test]
    fn every_example_is_one_that_is_taken() {
        for (name, example) in GROUPS.iter().flat_map(|(_, commands)| commands.iter()) {
            for line in example.lines().flat_map(|line| line.split(" && ")) {
                let words = shlex::split(line).expect("words of a shell");
                let parsed = crate::command().try_get_matches_from(words);
                assert!(
                    parsed.is_ok(),
                    "{name}: {line}: {}",
                    parsed.expect_err("it is one")
                );
            }
        }
    }
}
