//! What the page of Porcupine draws: `visualizationData` of its `visualization.go`, as JSON.

use std::collections::HashMap;

use serde_json::{Value as Json, json};

use crate::{History, Outcome};

/// Operations that are drawn together, and the orders in which they can be put.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Partition {
    /// Places of operations in [`History::operations`].
    pub operations: Vec<usize>,
    /// Orders that are allowed, each of as many operations as it was possible to place.
    pub orders: Vec<Vec<Step>>,
}

/// An operation in an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Its place in [`History::operations`].
    pub operation: usize,
    /// What the object is after it.
    pub state: String,
}

/// Times are this far apart, which the page relies on.
const TIME_STEP: usize = 100;

/// The history, drawn.
pub fn porcupine(history: &History, partitions: &[Partition]) -> Json {
    let partitions: Vec<_> = partitions
        .iter()
        .map(|partition| drawn(history, partition))
        .collect();
    let faults: Vec<_> = history
        .events()
        .iter()
        .enumerate()
        .filter(|(_, event)| event.process == crate::Process::Nemesis)
        .map(|(at, event)| {
            json!({
                "ClientId": 0, "Tag": "nemesis", "Start": at * TIME_STEP, "End": at * TIME_STEP,
                "Description": event.f, "Details": event.value.to_string(),
                "Annotation": true, "TextColor": "", "BackgroundColor": "",
            })
        })
        .collect();
    json!({ "Partitions": partitions, "Annotations": faults })
}

fn drawn(history: &History, partition: &Partition) -> Json {
    let places: HashMap<usize, usize> = partition.operations.iter().copied().zip(0..).collect();
    let elements: Vec<_> = partition
        .operations
        .iter()
        .map(|&operation| element(history, operation))
        .collect();
    let mut orders: Vec<_> = partition.orders.iter().collect();
    orders.sort_by_key(|order| std::cmp::Reverse(order.len()));
    let mut largest = serde_json::Map::new();
    for (number, order) in orders.iter().enumerate() {
        for step in *order {
            let place = places[&step.operation].to_string();
            largest.entry(place).or_insert_with(|| number.into());
        }
    }
    let orders: Vec<Vec<_>> = orders
        .iter()
        .map(|order| {
            order
                .iter()
                .map(|step| json!({ "Index": places[&step.operation], "StateDescription": step.state }))
                .collect()
        })
        .collect();
    json!({ "History": elements, "PartialLinearizations": orders, "Largest": largest })
}

fn element(history: &History, operation: usize) -> Json {
    let operation = &history.operations()[operation];
    // What may still take effect ends after everything else.
    let end = operation
        .end
        .filter(|_| operation.outcome != Outcome::Unknown);
    let end_ns = operation.return_ns.filter(|_| end.is_some());
    json!({
        "ClientId": operation.process,
        "Start": operation.call * TIME_STEP,
        "OriginalStart": operation.call_ns.to_string(),
        "End": end.unwrap_or(history.events().len()) * TIME_STEP,
        "OriginalEnd": end_ns.map_or_else(|| "unknown".to_owned(), |end| end.to_string()),
        "Description": operation.words(),
        "Metadata": operation.error.as_ref().map(ToString::to_string).unwrap_or_default(),
    })
}
