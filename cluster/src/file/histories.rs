//! What the objects are that clients work with, and what is promised of them: what clients saw is
//! checked against it.

use glob::Pattern;
use history::{Consistency, Contract, Model, Rule};
use serde::Deserialize;

use super::raw::Words;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawHistory {
    keys: Option<String>,
    model: String,
    promises: Option<String>,
    initial: Option<serde_json::Value>,
}

/// What they mean.
pub(super) fn rules(raw: Vec<RawHistory>) -> Words<Vec<Rule>> {
    let settle = |raw: RawHistory| {
        let here = |what: String| format!("histories of {}: {what}", raw.model);
        let model = Model::parse(&raw.model).map_err(|refused| refused.to_string())?;
        let mut contract = Contract::new(model);
        if let Some(name) = &raw.promises {
            contract.consistency = Consistency::from_name(name).ok_or_else(|| {
                let known = Consistency::ALL.map(|(_, name)| name).join(", ");
                here(format!("there is no promise {name} (there are {known})"))
            })?;
        }
        if let Some(initial) = &raw.initial {
            contract.initial = history::parse_value(&initial.to_string()).map_err(here)?;
        }
        contract.fits().map_err(|what| here(what.to_string()))?;
        let keys = raw.keys.as_deref().map(Pattern::new).transpose();
        let keys = keys.map_err(|what| here(format!("keys: {what}")))?;
        Ok(Rule { keys, contract })
    };
    raw.into_iter().map(settle).collect()
}
