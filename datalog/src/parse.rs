//! From text to rules.

use crate::lexer::{Token, Word, words};
use crate::problem::{Checked, Position, Problem, Source, Wrong};
use crate::syntax::{
    Aggregate, Argument, Comparison, Condition, Expression, HeadTerm, Literal, Operation, Term,
    Value, WrittenAtom, WrittenRule,
};

/// What makes the head of a rule a violation.
const VIOLATION: &str = "violation";

/// So deep may parentheses be, since the parser calls itself.
const DEPTH_MAX: u32 = 100;

/// So many parts a condition or a place of a head has at most: what looks at them calls itself, too.
pub(crate) const PARTS_MAX: usize = 200;

struct Parser<'a> {
    text: &'a str,
    tokens: Vec<Token>,
    place: usize,
    depth: u32,
    /// How many parts the condition, or the place of the head, has so far.
    parts: usize,
    /// The relation of the rule that is read.
    rule: Option<String>,
}

/// The rules of a source.
pub(crate) fn parse(source: &Source) -> Result<Vec<WrittenRule>, Problem> {
    let tokens = words(&source.text).map_err(|wrong| wrong.in_source(&source.name, None))?;
    let mut parser = Parser {
        text: &source.text,
        tokens,
        place: 0,
        depth: 0,
        parts: 0,
        rule: None,
    };
    let mut rules = Vec::new();
    while parser.peek().word != Word::End {
        parser.rule = None;
        match parser.rule() {
            Ok(rule) => rules.push(rule),
            Err(wrong) => return Err(wrong.in_source(&source.name, parser.rule.as_deref())),
        }
    }
    Ok(rules)
}

impl Parser<'_> {
    fn peek(&self) -> &Token {
        &self.tokens[self.place]
    }

    /// The word after the next one.
    fn second(&self) -> &Word {
        let last = self.tokens.len() - 1;
        &self.tokens[(self.place + 1).min(last)].word
    }

    fn next(&mut self) -> Token {
        let token = self.tokens[self.place].clone();
        self.place = (self.place + 1).min(self.tokens.len() - 1);
        token
    }

    fn is_sign(&self, sign: &str) -> bool {
        matches!(&self.peek().word, Word::Sign(next) if *next == sign)
    }

    fn takes(&mut self, sign: &str) -> bool {
        let is_it = self.is_sign(sign);
        if is_it {
            self.next();
        }
        is_it
    }

    fn wants(&mut self, sign: &str, why: &str) -> Checked<()> {
        if self.takes(sign) {
            return Ok(());
        }
        let found = self.peek();
        let what = format!("`{sign}` {why} is missing before {}", found.word.told());
        Err(Wrong::new(found.at, what))
    }

    fn rule(&mut self) -> Checked<WrittenRule> {
        let begin = self.place;
        let is_violation = matches!(&self.peek().word, Word::Name(name) if name == VIOLATION)
            && matches!(self.second(), Word::Name(_));
        if is_violation {
            self.next();
        }
        self.refuse_violation_alone()?;
        let (relation, at) = self.relation()?;
        self.rule = Some(relation.clone());
        let head = self.listed(Self::head_term)?;
        let mut body = Vec::new();
        if self.takes(":-") {
            body.push(self.literal()?);
            while self.takes(",") {
                body.push(self.literal()?);
            }
        }
        self.wants(".", "at the end of the rule")?;
        Ok(WrittenRule {
            is_violation,
            relation,
            at,
            head,
            body,
            text: self.text_from(begin),
        })
    }

    /// `violation(K)` would be a relation that no one looks for.
    fn refuse_violation_alone(&self) -> Checked<()> {
        let token = self.peek();
        if token.word != Word::Name(VIOLATION.into()) {
            return Ok(());
        }
        let what = "`violation` is no relation: name what is violated, as in \
                    `violation lost(K) :- …`";
        Err(Wrong::new(token.at, what))
    }

    /// The text from a token to the one before the next, as one line.
    fn text_from(&self, begin: usize) -> String {
        let mut line = String::new();
        let mut last_end = None;
        for token in &self.tokens[begin..self.place] {
            if last_end.is_some_and(|end| end < token.begin) {
                line.push(' ');
            }
            line += &self.text[token.begin..token.end];
            last_end = Some(token.end);
        }
        line
    }

    fn relation(&mut self) -> Checked<(String, Position)> {
        let token = self.next();
        match token.word {
            Word::Name(name) => Ok((name, token.at)),
            Word::Variable(name) => {
                let what = format!(
                    "the name of a relation begins with a small letter, not as `{name}` does"
                );
                Err(Wrong::new(token.at, what))
            }
            Word::Sign("%") => Err(Wrong::new(token.at, "a comment begins with `#`")),
            other => {
                let what = format!("here is {}, where a relation should be", other.told());
                Err(Wrong::new(token.at, what))
            }
        }
    }

    /// `(one, another)`.
    fn listed<T>(&mut self, item: fn(&mut Self) -> Checked<T>) -> Checked<Vec<T>> {
        self.wants("(", "after the name of a relation")?;
        let mut items = Vec::new();
        if self.takes(")") {
            return Ok(items);
        }
        loop {
            items.push(item(self)?);
            if self.takes(")") {
                return Ok(items);
            }
            self.wants(",", "or `)`")?;
        }
    }

    fn head_term(&mut self) -> Checked<HeadTerm> {
        self.parts = 0;
        let (word, at) = (self.peek().word.clone(), self.peek().at);
        let aggregate = match &word {
            Word::Name(name) => Aggregate::ALL.iter().find(|(word, _)| word == name),
            _ => None,
        };
        let Some((_, aggregate)) = aggregate else {
            if word == Word::Variable("_".into()) {
                let what = "`_` is nothing that a head could have: name it";
                return Err(Wrong::new(at, what));
            }
            return Ok(HeadTerm::Is(self.expression()?));
        };
        self.next();
        self.wants("(", "after an aggregate")?;
        let token = self.next();
        let Word::Variable(name) = token.word else {
            let what = format!("{}(…) is of one variable", aggregate.word());
            return Err(Wrong::new(token.at, what));
        };
        self.wants(")", "after the variable of an aggregate")?;
        Ok(HeadTerm::Aggregate(*aggregate, name, at))
    }

    fn literal(&mut self) -> Checked<Literal> {
        let at = self.peek().at;
        if self.takes("!") {
            return Ok(Literal::Absent(self.atom()?));
        }
        if let Word::Name(name) = &self.peek().word {
            if matches!(name.as_str(), "not" | "violation")
                && matches!(self.second(), Word::Name(_))
            {
                let what = format!("`{name}` has no meaning here: absence is `!relation(…)`");
                return Err(Wrong::new(at, what));
            }
            if !is_function(name) {
                return Ok(Literal::Holds(self.atom()?));
            }
        }
        Ok(Literal::Condition(self.condition()?, at))
    }

    fn atom(&mut self) -> Checked<WrittenAtom> {
        let (relation, at) = self.relation()?;
        let arguments = self.listed(Self::argument)?;
        Ok(WrittenAtom {
            relation,
            at,
            arguments,
        })
    }

    fn argument(&mut self) -> Checked<Argument> {
        let mut column = None;
        let at = self.peek().at;
        if let (Word::Name(name), Word::Sign(":")) = (&self.peek().word, self.second()) {
            column = Some(name.clone());
            self.next();
            self.next();
        }
        let term = self.term()?;
        if !self.is_sign(",") && !self.is_sign(")") {
            let what = "an atom has variables, numbers, texts and `_`: what is calculated \
                        stands in a condition of its own, as in `X = N + 1`";
            return Err(Wrong::new(self.peek().at, what));
        }
        Ok(Argument { column, term, at })
    }

    fn term(&mut self) -> Checked<Term> {
        let token = self.next();
        Ok(match token.word {
            Word::Variable(name) if name == "_" => Term::Any,
            Word::Variable(name) => Term::Variable(name),
            Word::Integer(number) => Term::Constant(number.into()),
            Word::Text(text) => Term::Constant(text.into()),
            Word::Sign("-") => match self.next().word {
                Word::Integer(number) => Term::Constant(Value::Integer(-number)),
                other => {
                    let what = format!("after `-` stands a number, not {}", other.told());
                    return Err(Wrong::new(token.at, what));
                }
            },
            other => return Err(no_value(&other, token.at)),
        })
    }

    fn condition(&mut self) -> Checked<Condition> {
        self.parts = 0;
        let left = self.expression()?;
        let token = self.next();
        if let Word::Sign(sign @ ("~" | "!~")) = token.word {
            return Ok(Condition::Match(left, self.pattern()?, sign == "~"));
        }
        let comparison = Comparison::ALL
            .iter()
            .find(|(sign, _)| token.word == Word::Sign(sign));
        let Some((_, comparison)) = comparison else {
            let what = format!(
                "a condition compares with =, !=, <, <=, >, >=, ~ or !~; here is {}",
                token.word.told()
            );
            return Err(Wrong::new(token.at, what));
        };
        Ok(Condition::Compare(left, *comparison, self.expression()?))
    }

    /// A regular expression.
    fn pattern(&mut self) -> Checked<String> {
        let token = self.next();
        let Word::Text(pattern) = token.word else {
            let what = "a regular expression is a text in quotes";
            return Err(Wrong::new(token.at, what));
        };
        match regex::Regex::new(&pattern) {
            Ok(_) => Ok(pattern),
            Err(error) => {
                let why = error.to_string();
                let why = why.lines().last().unwrap_or_default().trim();
                let what = format!("{pattern:?} is no regular expression: {why}");
                Err(Wrong::new(token.at, what))
            }
        }
    }

    fn expression(&mut self) -> Checked<Expression> {
        let mut left = self.product()?;
        loop {
            let operation = match self.peek().word {
                Word::Sign("+") => Operation::Add,
                Word::Sign("-") => Operation::Subtract,
                _ => return Ok(left),
            };
            self.next();
            let right = self.product()?;
            left = Expression::Arithmetic(Box::new(left), operation, Box::new(right));
        }
    }

    fn product(&mut self) -> Checked<Expression> {
        let mut left = self.factor()?;
        loop {
            let operation = match self.peek().word {
                Word::Sign("*") => Operation::Multiply,
                Word::Sign("/") => Operation::Divide,
                Word::Sign("%") => Operation::Remainder,
                _ => return Ok(left),
            };
            self.next();
            let right = self.factor()?;
            left = Expression::Arithmetic(Box::new(left), operation, Box::new(right));
        }
    }

    fn factor(&mut self) -> Checked<Expression> {
        let at = self.peek().at;
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(Wrong::new(at, "there are too many parentheses"));
        }
        self.parts += 1;
        if self.parts > PARTS_MAX {
            return Err(too_long(at));
        }
        let factor = self.factor_inside(at);
        self.depth -= 1;
        factor
    }

    fn factor_inside(&mut self, at: Position) -> Checked<Expression> {
        if self.takes("(") {
            let inside = self.expression()?;
            self.wants(")", "after what is in parentheses")?;
            return Ok(inside);
        }
        match self.peek().word.clone() {
            Word::Name(name) if is_function(&name) => self.function(&name),
            Word::Variable(name) if name == "_" => Err(Wrong::new(
                at,
                "`_` has no value that could be calculated with",
            )),
            _ => Ok(match self.term()? {
                Term::Variable(name) => Expression::Variable(name, at),
                Term::Constant(value) => Expression::Constant(value, at),
                Term::Any => unreachable!("it was refused"),
            }),
        }
    }

    fn function(&mut self, name: &str) -> Checked<Expression> {
        self.next();
        self.wants("(", "after the name of a function")?;
        let of = Box::new(self.expression()?);
        let made = if name == CAPTURE {
            self.wants(",", "before a regular expression")?;
            let at = self.peek().at;
            let pattern = self.pattern()?;
            if regex::Regex::new(&pattern).is_ok_and(|regex| regex.captures_len() < 2) {
                let what = "this regular expression has no group in parentheses to capture";
                return Err(Wrong::new(at, what));
            }
            Expression::Capture(of, pattern)
        } else {
            Expression::Number(of)
        };
        self.wants(")", "after what a function is of")?;
        Ok(made)
    }
}

/// What has too many parts.
pub(crate) fn too_long(at: Position) -> Wrong {
    let what = format!(
        "this is calculated from more than {PARTS_MAX} parts: make it a relation with a rule of its \
         own, and calculate with what that has"
    );
    Wrong::new(at, what)
}

const CAPTURE: &str = "capture";

fn is_function(name: &str) -> bool {
    matches!(name, CAPTURE | "number")
}

fn no_value(word: &Word, at: Position) -> Wrong {
    let what = match word {
        Word::Name(name) => format!(
            "`{name}` is no value: a variable begins with a capital letter, a text stands in \
             quotes (\"{name}\")"
        ),
        other => format!("here is {}, where a value should be", other.told()),
    };
    Wrong::new(at, what)
}
