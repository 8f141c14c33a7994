//! Sweeps of small runs that are written by hand, of which the answers are known.

mod advice;
mod blame;
mod findings;
mod going_on;
mod looking;
mod recording;
mod support;
