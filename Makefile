# make demo: everything from a fresh machine with Rust to a table. make test: all tests.
# make lint: what can be said without running anything, on x86-64 and on aarch64.
# make install, after make build: the programs in PREFIX/bin, with manual pages and what completes
# command lines in PREFIX/share; make uninstall removes them.
# make test-repeats: what repeats in virtual time, redis too, in as many runs as it takes to believe it.
# make test-amx: the tests of guests as on a processor with AMX, whichever this one is.
# make test-kills: the sweep that is killed twenty times, which takes minutes. make test-long: that,
# and everything else that takes long, such as all of what make test has a part of. make test-clusters:
# the clusters in workloads/clusters, really run, after what they need was installed; and simulated machines
# with Linux 6.12, where Debian has its source. All of these go on when a test fails, and name at the end
# what failed. make test-neat: systems of NEAT's time, which are fetched. make test-stores: a sweep of each store in workloads/programs/stores, and a table; some
# hours. make fuzz: each parser gets damaged input for FUZZ_SECONDS.
# make deny: licences, sources and unwanted crates among the dependencies; it builds cargo-deny first.
# make book: the documentation as HTML, in target/book.

TARGET := $(or $(CARGO_TARGET_DIR),target)
BUILT ?= $(TARGET)/release
PREFIX ?= /usr/local
# Programs that are built once for all clones, beside the kernels that scripts/build-uml.sh builds.
TOOLS := $(abspath $(or $(XDG_CACHE_HOME),$(and $(HOME),$(HOME)/.cache),$(TARGET)))/crashpoint/tools
# The newer kernel of simulated machines.
NEWER_KERNEL := $(dir $(TOOLS))uml/6.12/linux
PROGRAMS := crashpoint replay ace-gen
SHARE = $(DESTDIR)$(PREFIX)/share
COMPLETIONS := bash-completion/completions zsh/site-functions fish/vendor_completions.d
# File systems are mounted by root; everything else is done by whoever calls make.
SUDO := $(if $(filter 0,$(shell id -u)),,sudo)
# The programs under test run as root, cargo does not. Nothing is skipped: root is there.
RUNNER := $(if $(SUDO),--config 'target."cfg(all())".runner="sudo -E"')

# So that no test builds the programs again: tests/src/programs.rs.
TESTED := CRASHPOINT_TEST_PROGRAMS_BUILT=yes

# The tests that start guests.
AMX_TESTS := guests guest_findings guest_clusters repeats simulated_input

.PHONY: demo test test-amx test-repeats test-kills test-long test-clusters test-neat test-histories test-stores fuzz tools lint deny book bench bench-reach setup setup-go setup-tests build-tests setup-clusters setup-stores setup-neat setup-fuzz build install uninstall clean

demo:
	@scripts/demo

# The only examples in documentation are those of ace-gen (a test sees to it): to look for some in the
# others takes two minutes of building them with other features. Two halves beside each other: most tests wait for mounts, guests and servers, and at the end of each
# program for its slowest. After both, alone: kernel_says writes to the log of the kernel, which every
# sweep reads.
test: build-tests
	@$(TESTED) scripts/test --workspace --test '[!a-ik]*' --test 'k[!e]*' --locked $(RUNNER) + \
	    --workspace --lib --bins --test '[a-i]*' --locked $(RUNNER) , \
	    --workspace --test 'ke*' --locked $(RUNNER) , \
	    --package ace-gen --doc --locked $(RUNNER)

test-repeats: build-tests
	@$(TESTED) scripts/test --workspace --test repeats --test simulated --locked $(RUNNER) -- --ignored runs

test-amx: setup-tests
	cargo build --workspace --bins --lib --locked
	$(TESTED) cargo test --package end-to-end --no-fail-fast $(AMX_TESTS:%=--test %) --locked --config 'target."cfg(all())".runner="$(if $(SUDO),sudo -E )$(CURDIR)/scripts/on-amx"'

test-kills: setup-tests
	@scripts/test --package end-to-end --test sweeps --locked $(RUNNER) -- --ignored --nocapture killed_twenty_times

test-long: setup-go setup-tests setup-clusters setup-neat
	@scripts/test --release --package datalog --test million --locked -- --ignored --nocapture , \
	    --package end-to-end --locked $(RUNNER) -- --ignored --nocapture

test-clusters: setup-go setup-clusters
	@scripts/test --manifest-path workloads/programs/stores/Cargo.toml --locked , \
	    --release --package end-to-end --test clusters --test clusters_known --test cluster_sweeps --test system_specs --test starts --test guest_clusters --test disks --test systems --test simulated --test live_sweeps --test simulated_input --test inject --test inject_simulated --test inject_simulated_calls --test points_simulated --test inject_forks --test points_messages --test points_requests --test inject_traffic --test elects --test turns --locked $(RUNNER) -- --include-ignored --nocapture , \
	    --release --package simulation --test machines --locked $(RUNNER) -- of_6_12_
	@[ "$$(uname -m)" != x86_64 ] || [ -x "$(NEWER_KERNEL)" ] || \
	    echo "left out: simulated machines with Linux 6.12, as there is no $(NEWER_KERNEL)"

# The systems of NEAT's time, and that of FTS, one after the other.
test-neat: setup-neat
	@scripts/test --release --package end-to-end --test neat --test hdfs --locked $(RUNNER) -- --ignored --nocapture --test-threads 1

# Needs Go. Times are compared, so one test after the other.
test-histories: setup-go setup
	@scripts/test --release --package history --test porcupine --locked -- --ignored --nocapture --test-threads=1

# Findings are no failure: they are in the table.
test-stores:
	@scripts/setup --stores
	@scripts/stores --build

FUZZ_SECONDS ?= 60
CARGO_FUZZ_VERSION := 0.13.2
CARGO_FUZZ := $(TOOLS)/cargo-fuzz-$(CARGO_FUZZ_VERSION)/bin/cargo-fuzz

fuzz: setup-fuzz $(CARGO_FUZZ)
	@scripts/fuzz $(abspath $(CARGO_FUZZ)) $(FUZZ_SECONDS)

# Its version is in its path: a new one is another file. Debug builds in half the time.
$(CARGO_FUZZ): | setup-fuzz
	cargo install cargo-fuzz --locked --debug --version $(CARGO_FUZZ_VERSION) --root $(TOOLS)/cargo-fuzz-$(CARGO_FUZZ_VERSION)

lint:
	cargo fmt --all --check
	@for manifest in fuzz/Cargo.toml workloads/programs/stores/Cargo.toml; do \
	    cargo metadata --quiet --locked --format-version 1 --manifest-path "$$manifest" >/dev/null || \
	        { echo "error: the lock file beside $$manifest is not up to date: cargo metadata --manifest-path $$manifest" >&2; exit 2; }; \
	done
	cargo clippy --workspace --all-targets --locked -- -D warnings
	@scripts/lint-aarch64
	@scripts/check-links

CARGO_DENY_VERSION := 0.20.2
CARGO_DENY := $(TOOLS)/cargo-deny-$(CARGO_DENY_VERSION)/bin/cargo-deny

# No advisories: their database is a git repository of GitHub, and no registry of crates has it. Where
# that can be reached, `cargo deny check advisories` looks at them.
deny: $(CARGO_DENY)
	$(CARGO_DENY) --locked check licenses sources bans

# As cargo-fuzz above.
$(CARGO_DENY):
	cargo install cargo-deny --locked --debug --version $(CARGO_DENY_VERSION) --root $(TOOLS)/cargo-deny-$(CARGO_DENY_VERSION)

# What make deny and make fuzz have to build first.
tools: setup-fuzz $(CARGO_DENY) $(CARGO_FUZZ)
	@scripts/fuzz $(abspath $(CARGO_FUZZ)) 0

MDBOOK_VERSION := 0.5.4
MDBOOK := $(TOOLS)/mdbook-$(MDBOOK_VERSION)/bin/mdbook

book: $(MDBOOK)
	@scripts/check-links
	$(MDBOOK) build --dest-dir $(abspath $(TARGET))/book

# As cargo-fuzz above. Nothing of it serves or watches.
$(MDBOOK):
	cargo install mdbook --locked --debug --no-default-features --features search --version $(MDBOOK_VERSION) --root $(TOOLS)/mdbook-$(MDBOOK_VERSION)

bench: setup build
	$(SUDO) $(TARGET)/release/crashpoint bench

ROUNDS ?= 15

# How faults reach system calls and packets, and what other ways would cost.
bench-reach:
	cargo bench --workspace --bench reach --locked $(RUNNER) -- $(ROUNDS)

setup:
	@scripts/setup

# The first thing to know: it is not installed.
setup-go:
	@scripts/setup --go

# The second finds what it built before.
setup-tests:
	@scripts/setup --tests
	@[ "$$(uname -m)" != x86_64 ] || scripts/build-uml.sh --debian >/dev/null

# Tests and the programs that they run, all at once. A package alone would be built with other
# features of what it depends on, and most of it once more.
build-tests: setup-tests
	cargo build --workspace --all-targets --locked

# Simulated machines need the kernel of the other tests. They are tried with a newer one as well: 3 says
# that Debian has no source of it here.
setup-clusters: setup-tests
	@scripts/setup --clusters
	@[ "$$(uname -m)" != x86_64 ] || scripts/build-uml.sh --debian=6.12 >/dev/null || [ $$? -eq 3 ]

setup-stores:
	@scripts/setup --stores
	@scripts/stores --build-only

# A JDK 8 and the jars of old releases, in target/neat. Nothing is installed but Maven and patchelf.
setup-neat:
	@scripts/setup --neat
	@scripts/setup-neat

setup-fuzz:
	@scripts/setup --fuzz

build:
	cargo build --release --locked

# It does not build: whoever may write to PREFIX, such as root, may have no cargo.
install:
	@for program in $(PROGRAMS); do \
	    [ -x "$(BUILT)/$$program" ] || { echo "error: there is no $(BUILT)/$$program: run make build first" >&2; exit 2; }; \
	done
	install -d "$(DESTDIR)$(PREFIX)/bin"
	install -m 755 $(PROGRAMS:%="$(BUILT)/%") "$(DESTDIR)$(PREFIX)/bin"
	install -d $(COMPLETIONS:%="$(SHARE)/%")
	"$(BUILT)/crashpoint" man "$(SHARE)/man/man1"
	"$(BUILT)/crashpoint" completions bash >"$(SHARE)/bash-completion/completions/crashpoint"
	"$(BUILT)/crashpoint" completions zsh >"$(SHARE)/zsh/site-functions/_crashpoint"
	"$(BUILT)/crashpoint" completions fish >"$(SHARE)/fish/vendor_completions.d/crashpoint.fish"

uninstall:
	rm -f $(PROGRAMS:%="$(DESTDIR)$(PREFIX)/bin/%") "$(SHARE)/man/man1/crashpoint.1" "$(SHARE)/man/man1/crashpoint-"*.1
	rm -f "$(SHARE)/bash-completion/completions/crashpoint" "$(SHARE)/zsh/site-functions/_crashpoint"
	rm -f "$(SHARE)/fish/vendor_completions.d/crashpoint.fish"

clean:
	cargo clean
