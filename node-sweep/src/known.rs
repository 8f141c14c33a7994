//! What the verdicts amount to that a sweep left which did not end: what `--resume` would begin
//! with. Nothing is looked at and nothing is mounted for that.

use std::collections::HashMap;

use campaign::Interrupt;
use pace_rules::nodes::Explore;
use trace_store::Trace;

use crate::error::Result;
use crate::finding::Finding;
use crate::findings::Findings;
use crate::indices::Indices;
use crate::judged::Judged;
use crate::manifest::Manifest;
use crate::recoveries::Recoveries;
use crate::request::{Level, Request};
use crate::specs::{Looked, Specs, explain};
use crate::summary::{Summary, together, without_recoveries};
use crate::sweep::{Plan, Source, Swept, Trees, sweep_source};

/// Among so many states, the first ones, those are counted that equal one with a verdict, even if
/// the sweep had not come to them.
const EQUAL_MAX: u64 = 10_000;

/// The findings among what was judged, and what that amounts to. What would have prevented them,
/// and where else they are possible, is not looked at, as in a sweep that was stopped.
///
/// # Errors
/// If the trace is not one of this sweep.
pub(crate) fn known(
    trace: &Trace,
    manifest: &Manifest,
    judged: &Judged,
    seconds: &HashMap<Level, f64>,
) -> Result<(Vec<Finding>, Summary)> {
    let request = &manifest.request;
    let known = Known {
        trace,
        request,
        explore: request.explore_of(trace)?,
        manifest,
        judged,
    };
    let of_level = |level: &Level| {
        let seconds = seconds.get(level).copied().unwrap_or_default();
        match level {
            Level::Block | Level::DiskRecovery => known.of_disks(*level, seconds),
            Level::Recovery => known.of_recoveries(seconds),
            _ => known.of_calls(seconds),
        }
    };
    let levels = request.levels(trace);
    let levels = levels.iter().map(of_level);
    let mut levels = levels.collect::<Result<Vec<_>>>()?;
    levels.extend(without_recoveries(trace, request));
    let is_part = request.is_part(manifest.shard()?);
    let (mut findings, mut summary) = together(levels, request, is_part);
    let looked = Looked::of(&Specs::of(&request.specifications)?);
    judged.looked.iter().for_each(|line| looked.know(line));
    summary.unlooked = looked.words();
    explain(trace, request, &mut findings)?;
    Ok((findings, summary))
}

struct Known<'a> {
    trace: &'a Trace,
    request: &'a Request,
    explore: Explore,
    manifest: &'a Manifest,
    judged: &'a Judged,
}

impl Known<'_> {
    fn of_calls(&self, seconds: f64) -> Result<(Vec<Finding>, Summary)> {
        let spaces = self.request.spaces(self.explore, self.trace)?;
        let (sample, seed) = (self.request.sample, self.request.seed);
        let kinds = spaces.counts().into_iter().map(|(_, count)| count.states);
        let indices = Indices::of(kinds, sample, seed)?;
        let count = indices.count;
        let trees = Trees::new(self.trace, &spaces);
        let swept = self.swept(Level::Syscalls, trees, indices)?;
        let model = &self.request.model;
        let findings = Findings::new(self.trace, &spaces, model).of(&swept);
        let findings: Vec<_> = findings.into_iter().map(|(finding, _)| finding).collect();
        let summary = Summary::new(self.trace, model, &swept, count, findings.len(), seconds);
        Ok((findings, summary))
    }

    fn of_disks(&self, level: Level, seconds: f64) -> Result<(Vec<Finding>, Summary)> {
        let space = self.request.disks_at(level, self.explore, self.trace)?;
        let (sample, seed) = (self.request.sample_of_disks(), self.request.seed);
        let kinds = space.counts().into_iter().map(|count| count.states);
        let indices = Indices::of(kinds, sample, seed)?;
        let count = indices.count;
        let swept = self.swept(level, space.source()?, indices)?;
        let findings = space.findings(&swept, false)?;
        let model = space.file_systems();
        let summary = Summary::new(self.trace, &model, &swept, count, findings.len(), seconds);
        Ok((findings, summary.of_disks(self.trace, &space)))
    }

    fn of_recoveries(&self, seconds: f64) -> Result<(Vec<Finding>, Summary)> {
        let recoveries = Recoveries::new(self.trace, self.request)?;
        let (sample, seed) = (self.request.sample, self.request.seed);
        let kinds = recoveries.counts().into_iter().map(|count| count.states);
        let indices = Indices::of(kinds, sample, seed)?;
        let count = indices.count;
        let swept = self.swept(Level::Recovery, recoveries.source(), indices)?;
        let findings = recoveries.findings(&swept, None)?;
        let name = recoveries.name();
        let summary = Summary::new(self.trace, &name, &swept, count, findings.len(), seconds);
        Ok((findings, summary.of_recoveries(self.trace)))
    }

    /// The sweep of a level, at least up to the last of the states that have a verdict. They are not
    /// in the order of their indices.
    fn swept(&self, level: Level, source: impl Source, indices: Indices) -> Result<Swept> {
        let mut left = self.judged.indices.get(&level).cloned().unwrap_or_default();
        let is_due = |(place, index): &(u64, u64)| {
            let is_due = *place < EQUAL_MAX || !left.is_empty();
            left.remove(index);
            is_due
        };
        let indices = (0..)
            .zip(indices.all)
            .take_while(is_due)
            .map(|(_, index)| index);
        let plan = Plan {
            shard: self.manifest.shard()?,
            known: self.judged.of.get(&level).cloned().unwrap_or_default(),
            only_known: true,
            deadline: None,
            undamaged: None,
            is_sample: self.request.sample_at(level).is_some(),
        };
        let swept = sweep_source(
            source,
            indices,
            Vec::new(),
            &plan,
            &Interrupt::default(),
            &mut (),
        )?;
        Ok(Swept {
            interrupted: true,
            ..swept
        })
    }
}
