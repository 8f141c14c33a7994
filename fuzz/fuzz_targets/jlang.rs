//! J-lang is read or refused, and what is written is read.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(workload) = workloads::jlang::parse(text, "fuzz") else {
        return;
    };
    if let Ok(written) = workloads::jlang::to_jlang(&workload) {
        workloads::jlang::parse(&written, "fuzz")
            .unwrap_or_else(|error| panic!("{error}: {written}"));
    }
});
