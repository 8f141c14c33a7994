# make demo: everything from a fresh machine with Rust to a table. make test: all tests.
# make test-kills: the sweep that is killed twenty times, which takes minutes.

TARGET := $(or $(CARGO_TARGET_DIR),target)
# File systems are mounted by root; everything else is done by whoever calls make.
SUDO := $(if $(filter 0,$(shell id -u)),,sudo)
# The programs under test run as root, cargo does not. Nothing is skipped: root is there.
RUNNER := $(if $(SUDO),--config 'target."cfg(all())".runner="sudo -E"')

.PHONY: demo test test-kills lint bench setup build clean

demo:
	@echo '== 1 of 3: the programs of ext4, xfs and btrfs'
	@scripts/setup
	@echo '== 2 of 3: build (a minute or so)'
	@cargo build --quiet --release --locked
	@echo '== 3 of 3: every workload of one operation on each file system'
	@$(SUDO) $(TARGET)/release/crashpoint fs --fs ext4,xfs,btrfs --preset seq-1

test: setup
	cargo test --workspace --locked $(RUNNER)

test-kills: setup
	cargo test --package end-to-end --test sweeps --locked $(RUNNER) -- --ignored --nocapture

lint:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	@if command -v cargo-deny >/dev/null; then cargo deny --locked check licenses; fi

bench: setup build
	$(SUDO) $(TARGET)/release/crashpoint bench

setup:
	@scripts/setup

build:
	cargo build --release --locked

clean:
	cargo clean
