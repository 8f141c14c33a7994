//! What is read as workloads is printed as what is read again as the same.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(read) = workloads::parse(text, "fuzz") else {
        return;
    };
    for workload in read {
        let line = workload.to_line();
        let again =
            workloads::parse(&line, "fuzz").unwrap_or_else(|error| panic!("{error}: {line}"));
        assert_eq!(again, [workload]);
    }
});
