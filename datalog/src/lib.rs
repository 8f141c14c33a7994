//! Rules about facts, in Datalog, read at run time.
//!
//! A [`Program`] is parsed and checked text: recursion, negation and aggregates in strata. A
//! [`Database`] has facts in tables of an SQLite file, and derives what follows from them, each fact
//! with the rule and the facts that it rests on ([`Derivation`]). Facts have times; a derived one
//! holds from the time on at which all that it rests on held. Facts that are added later cost as much as
//! what follows from them ([`Database::extend`]).

#![forbid(unsafe_code)]

mod absence;
mod answers;
mod database;
mod derivation;
mod error;
mod evaluate;
mod extend;
mod functions;
mod kinds;
mod lexer;
mod parse;
mod problem;
mod program;
mod replay;
mod resolve;
mod safety;
mod sql;
mod strata;
mod syntax;

pub use answers::{Fact, Unseen};
pub use database::Database;
pub use derivation::{Derivation, Ground};
pub use error::{Error, Result};
pub use extend::Extended;
pub use problem::{Position, Problem, Source};
pub use program::{Column, InputRelation, Program, Relation};
pub use replay::Mistake;
pub use syntax::{Kind, Value};
