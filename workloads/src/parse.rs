//! Statements to workloads, from a text or from a stream that never ends.

use std::collections::VecDeque;
use std::io::{BufRead, Read};
use std::path::Path;

use crate::arguments::Arguments;
use crate::draft::Draft;
use crate::error::{Fault, ParseError, Problem};
use crate::op::Workload;
use crate::operation::operation;
use crate::repeat::repeat;
use crate::token::{Line, Word};

/// The largest number of operations and crash points in a workload, `repeat` expanded.
pub const OPERATIONS_MAX: usize = 100_000;
/// The longest line that [`Reader`] takes, in bytes.
pub const LINE_BYTES_MAX: usize = 16 << 20;

/// The workloads of a text. A workload without a name is called as the file is, without its
/// directory and extension.
///
/// # Errors
/// The first thing in the text that is not of the language, with its place.
pub fn parse(text: &str, file_name: &str) -> Result<Vec<Workload>, ParseError> {
    let mut parser = Parser::new(file_name);
    for line in text.lines() {
        parser.line(line)?;
    }
    parser.finish();
    Ok(parser.ready.into())
}

/// Yields the workloads of a stream one by one: each as soon as the next one starts or the
/// stream ends, so that a generator's endless output can be piped in. Ends after an error.
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    parser: Parser,
    buffer: Vec<u8>,
    failed: Option<ParseError>,
    ended: bool,
}

impl<R: BufRead> Reader<R> {
    /// Reads `input`, which is called `file_name` in errors.
    pub fn new(input: R, file_name: &str) -> Reader<R> {
        Reader {
            input,
            parser: Parser::new(file_name),
            buffer: Vec::new(),
            failed: None,
            ended: false,
        }
    }

    /// Parses one line, or finishes at the end of the stream.
    fn advance(&mut self) -> Result<(), ParseError> {
        self.buffer.clear();
        let limit = LINE_BYTES_MAX as u64 + 1;
        let read = (&mut self.input)
            .take(limit)
            .read_until(b'\n', &mut self.buffer);
        let bytes = read.map_err(|error| self.parser.fail_next_line(Problem::Read(error)))?;
        if bytes == 0 {
            self.ended = true;
            self.parser.finish();
            return Ok(());
        }
        if bytes > LINE_BYTES_MAX {
            return Err(self
                .parser
                .fail_next_line(Problem::Malformed("the line is longer than 16 MiB")));
        }
        match std::str::from_utf8(&self.buffer) {
            Ok(line) => self.parser.line(line.strip_suffix('\n').unwrap_or(line)),
            Err(error) => {
                let valid = String::from_utf8_lossy(&self.buffer[..error.valid_up_to()]);
                let fault = Fault::new(valid.len(), Problem::Malformed("the text is not UTF-8"));
                Err(fault.locate(&self.parser.file, self.parser.line_number + 1, &valid))
            }
        }
    }
}

impl<R: BufRead> Iterator for Reader<R> {
    type Item = Result<Workload, ParseError>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.parser.ready.is_empty() && !self.ended {
            if let Err(error) = self.advance() {
                self.failed = Some(error);
                self.ended = true;
            }
        }
        // What was complete before the error comes before it.
        self.parser
            .ready
            .pop_front()
            .map(Ok)
            .or_else(|| self.failed.take().map(Err))
    }
}

/// Takes lines and collects finished workloads.
#[derive(Debug)]
struct Parser {
    file: String,
    line_number: u64,
    draft: Option<Draft>,
    ready: VecDeque<Workload>,
}

impl Parser {
    fn new(file_name: &str) -> Parser {
        Parser {
            file: file_name.to_owned(),
            line_number: 0,
            draft: None,
            ready: VecDeque::new(),
        }
    }

    fn line(&mut self, text: &str) -> Result<(), ParseError> {
        self.line_number += 1;
        self.statements(text)
            .map_err(|fault| fault.locate(&self.file, self.line_number, text))
    }

    fn finish(&mut self) {
        self.ready.extend(self.draft.take().map(Draft::finish));
    }

    fn fail_next_line(&self, problem: Problem) -> ParseError {
        Fault::new(0, problem).locate(&self.file, self.line_number + 1, "")
    }

    fn statements(&mut self, text: &str) -> Result<(), Fault> {
        let mut line = Line::new(text);
        let mut words = Vec::with_capacity(8);
        loop {
            if let Some(first) = line.word()? {
                self.statement(&first, &mut line, &mut words)?;
            }
            if !line.next_statement() {
                return Ok(());
            }
        }
    }

    fn statement<'a>(
        &mut self,
        first: &Word<'a>,
        line: &mut Line<'a>,
        words: &mut Vec<Word<'a>>,
    ) -> Result<(), Fault> {
        match first.keyword() {
            "source" => {
                let text = line.free_text("where the workload is from")?;
                self.draft().workload.source.push(text);
                return Ok(());
            }
            "expect" => {
                let text = line.free_text("what must hold after the crash")?;
                self.draft().workload.expect.push(text);
                return Ok(());
            }
            _ => line.words(words)?,
        }
        let misplaced = |problem| Fault::new(first.offset, problem);
        match first.keyword() {
            "workload" => self.workload(first, words),
            "setup" => nothing_after(first, words)
                .and_then(|()| self.draft().begin_setup().map_err(misplaced)),
            "run" => nothing_after(first, words)
                .and_then(|()| self.draft().begin_run().map_err(misplaced)),
            "!" => nothing_after(first, words)
                .and_then(|()| self.draft().crash_point().map_err(misplaced)),
            "repeat" => repeat(first, words, self.draft()),
            _ => {
                let draft = self.draft();
                let op = operation(first, Arguments::new(first, words, &mut draft.handles))?;
                draft.op(op).map_err(misplaced)
            }
        }
    }

    /// `workload NAME`: ends the one before.
    fn workload(&mut self, first: &Word<'_>, words: &[Word<'_>]) -> Result<(), Fault> {
        if self.draft.as_ref().is_some_and(Draft::is_headless) {
            let problem = Problem::Misplaced {
                word: "workload",
                reason: "must come before its 'source' and 'expect'",
            };
            return Err(Fault::new(first.offset, problem));
        }
        let name = words.first().ok_or_else(|| {
            Fault::new(
                first.end,
                Problem::Expected {
                    what: "the name of the workload",
                    found: None,
                },
            )
        })?;
        nothing_after(first, &words[1..])?;
        self.finish();
        self.draft = Some(Draft::new(name.text.to_string(), true));
        Ok(())
    }

    /// The workload that is being read; without `workload` it is called as the file is.
    fn draft(&mut self) -> &mut Draft {
        self.draft.get_or_insert_with(|| {
            let path = Path::new(&self.file);
            let stem = path.file_stem().unwrap_or(path.as_os_str());
            Draft::new(stem.to_string_lossy().into_owned(), false)
        })
    }
}

fn nothing_after(first: &Word<'_>, words: &[Word<'_>]) -> Result<(), Fault> {
    words.first().map_or(Ok(()), |word| {
        let problem = Problem::Trailing {
            word: word.text.to_string(),
            after: first.text.to_string(),
        };
        Err(Fault::new(word.offset, problem))
    })
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn a_workload_is_yielded_before_the_stream_ends() {
        let mut endless = Reader::new(io::BufReader::new(Endless { line: 0 }), "-");
        assert_eq!(endless.next().unwrap().unwrap().name, "seq-1/0");
        assert_eq!(endless.nth(1000).unwrap().unwrap().name, "seq-1/1001");
    }

    /// A generator that never stops.
    struct Endless {
        line: u64,
    }

    impl Read for Endless {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let line = format!("workload seq-1/{}; creat foo; fsync foo\n", self.line);
            self.line += 1;
            buffer[..line.len()].copy_from_slice(line.as_bytes());
            Ok(line.len())
        }
    }

    #[test]
    fn what_was_complete_before_an_error_is_yielded_and_nothing_after_it() {
        let text = "workload a; sync; workload b; sync\nworkload c; sink\nworkload d; sync\n";
        let results: Vec<_> = Reader::new(text.as_bytes(), "-")
            .map(|result| result.map(|workload| workload.name))
            .collect();
        assert_eq!(results.len(), 3);
        assert_eq!(results[0].as_deref().unwrap(), "a");
        assert_eq!(results[1].as_deref().unwrap(), "b");
        assert_eq!(results[2].as_ref().unwrap_err().line, 2);
    }

    #[test]
    fn a_line_that_never_ends_is_an_error() {
        let error = Reader::new(io::BufReader::new(io::repeat(b'x')), "-")
            .next()
            .unwrap()
            .unwrap_err();
        assert_eq!(error.to_string(), "-:1:1: the line is longer than 16 MiB");
    }

    #[test]
    fn a_read_error_is_passed_on() {
        struct Broken;
        impl Read for Broken {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::Error::other("the pipe burst"))
            }
        }
        let error = Reader::new(io::BufReader::new(Broken), "-")
            .next()
            .unwrap()
            .unwrap_err();
        assert_eq!(error.to_string(), "-:1:1: failed to read: the pipe burst");
    }

    #[test]
    fn a_workload_without_a_name_is_called_as_its_file_is() {
        assert_eq!(parse("sync", "some/where/foo.wl").unwrap()[0].name, "foo");
        assert_eq!(parse("sync", "-").unwrap()[0].name, "-");
    }

    #[test]
    fn without_sections_everything_is_run() {
        let workload = &parse("creat foo; !; sync", "foo.wl").unwrap()[0];
        assert_eq!((workload.setup.len(), workload.run.len()), (0, 3));
    }

    #[test]
    fn line_ends_of_other_systems_and_empty_texts_are_no_matter() {
        assert_eq!(
            parse("creat foo\r\nsync\r\n", "foo.wl").unwrap(),
            parse("creat foo\nsync", "foo.wl").unwrap()
        );
        assert!(parse("", "foo.wl").unwrap().is_empty());
        assert!(parse("# nothing\n ; ;\n", "foo.wl").unwrap().is_empty());
    }
}
