# Every task of this repository. `make` alone lists them.
SHELL := /bin/bash
.DEFAULT_GOAL := help
TOOLS := $(CURDIR)/.tools
export PATH := $(TOOLS)/bin:$(HOME)/.cargo/bin:$(PATH)

.PHONY: install-server bindings bindings-clone bindings-test sync-demo serve-demo bench-sync bench-bindings server-bench help setup build install check test posix coherence sim alarms damage small-disk hostile fuzz kill bench bench-quick bench-engine profile bench-peers million scale history rotate churn sync-sim sync-kill demo vectors changelog clean bindings-kill server-fuzz server-test server-accounts

help: ## list these tasks
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 16

setup: ## install what building and testing need, or say what to type
	@tools/setup.sh

build: export BINDINGS := none # of what setup installs for other languages nothing is needed
build: setup ## the release binary, target/release/strongroom
	cargo build --release --locked -p strongroom-cli

install: ## put the program that `make build` made in its place, with manual, mount(8) helper and systemd units: PREFIX, DESTDIR
	PREFIX="$(PREFIX)" SBINDIR="$(SBINDIR)" DESTDIR="$(DESTDIR)" tools/install.sh

install-server: ## put the program that `cargo build --release --locked -p strongroom-server` made in its place, with a systemd unit: PREFIX, DESTDIR
	PREFIX="$(PREFIX)" DESTDIR="$(DESTDIR)" tools/install.sh server

# Licences, copies and sources of dependencies are compared with deny.toml by the conformance tests; advisories need a
# database that only `cargo deny check advisories` fetches.
check: setup ## format, lints, documents, tests of the small crates; run it before each commit
	cargo fmt --all -- --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	cargo test --locked -p strongroom-format -p strongroom-crypto -p strongroom-segments -p strongroom-conformance --lib --tests

test: setup ## all tests, with real mounts; what CI runs
	tools/test.sh

bindings: setup ## the libraries for other languages: C is built and installed into PREFIX, Python is a wheel in target/wheels, Java a jar in target/java; BINDINGS=c,python,java chooses
	tools/bindings_c.sh install
	tools/bindings_python.sh wheel
	tools/bindings_java.sh build

bindings-test: setup ## bindings with what is too heavy for `make test`: the crates as `cargo publish` packs them; C under valgrind, Python with pandas, pyarrow, zarr, DuckDB; Java with Lucene, Commons IO and Commons Compress, and from Kotlin; each installed as a user does; all killed on one vault for 20 s
	tools/bindings_rust.sh long
	tools/bindings_c.sh long
	tools/bindings_python.sh long
	tools/bindings_java.sh long
	cargo build --release --locked -p strongroom-cli
	tools/bindings_kill.py 20 --self-test

bindings-clone: setup ## a new user of each language: a fresh clone of what is committed, `make bindings` there, and the three READMEs line by line
	tools/bindings_clone.py

bindings-kill: setup ## C, Python, Java, a mount and commands use one vault for five minutes, one killed with -9 every ten seconds: nothing acknowledged is lost
	cargo build --release --locked -p strongroom-cli
	tools/bindings_kill.py 300

posix: build ## pjdfstest and fsx on a mount, as root
	tools/posix.sh

coherence: build ## direct writes, mapped memory, LMDB and signals beside readers and copiers, a thousand rounds each (root)
	STRONGROOM_ROUNDS=1000 cargo test --locked -p strongroom-mount --test coherence -- --test-threads=1
	tools/lmdb.py 1000

sim: setup ## 1,000 power cuts, and a fault at every call of a small scenario
	tools/sim.sh

alarms: setup ## 1,000 runs of verify, verify --deep and check beside rotation, compaction, erasing, snapshots and churn: none may be alarmed
	cargo build --locked --quiet -p strongroom-simulator
	target/debug/strongroom-sim alarms --runs $(or $(RUNS),1000)

damage: setup ## 600 damages to files of a vault folder: each is named, no wrong byte is read, and a repair brings back the rest
	tools/damage.sh

small-disk: setup ## 500 rounds of filling, emptying and refilling small disks (tmpfs, ext4, quota): df keeps its word, nothing is lost (root)
	tools/small_disk.sh

hostile: setup ## every file of a vault folder x every operation x every command: nothing outside touched, no wrong byte, all of it named; pages mixed (root)
	tools/hostile.sh

fuzz: setup ## hostile bytes for every decoder, 2,000,000 mutants each; FUZZ_SEED=n for others
	tools/fuzz.sh

kill: build ## fifty times kill -9 of a mount under four writers, everything acknowledged compared
	tools/kill.py 50

sync-sim: setup ## 5,000 histories of devices that write, sync over a bad line, are killed, change keys, 200 more at a server that is killed: all come to one tree, nothing is lost; every lie of a remote
	tools/sync_sim.sh

sync-kill: build ## devices of one vault killed with -9 while they sync, two hundred times: all come to the same files
	tools/sync_kill.py 200

server-fuzz: setup ## requests of every kind to a real server, made by Schemathesis of its OpenAPI document: none is answered as it is not documented; SECONDS=n, SEED=n
	cargo build --locked --quiet -p strongroom-server
	tools/server_fuzz.py $(or $(SECONDS),120)

server-test: setup ## several instances of a server on PostgreSQL and S3: all tests of the server, 10,000 races, 50 rounds of kill -9 of an instance, PostgreSQL or S3, a backup that is restored; ROUNDS=n, SEED=n, RACES=n
	cargo build --locked --quiet -p strongroom-server
	tools/server_test.py

server-accounts: setup ## 1,000 accounts with 3 devices each push and pull at two instances of a server for ten minutes: no error, and its memory stays; ACCOUNTS=n, SECONDS=n
	cargo build --release --locked -p strongroom-server
	cargo build --release --locked -p strongroom-simulator --example accounts
	tools/server_accounts.py $(if $(INTO),--into $(INTO))

bench: build bench-build ## every row of docs/performance.md: Strongroom, the disk beneath, every peer; an hour (root)
	target/release/strongroom-bench $(BENCH)

bench-quick: build bench-build ## the same with little work, in less than three minutes (root)
	target/release/strongroom-bench --quick --into target/bench $(BENCH)

bench-engine: ## the engine without a mount: names, commits, memory at growing sizes, content over threads; two minutes
	cargo bench --locked -p strongroom-filesystem --bench engine -- --into $(CURDIR)/docs/performance $(BENCH)

profile: setup ## where the time of one row of the bench goes: make profile ROW=create (root)
	cargo build --profile profiling --locked -p strongroom-cli -p strongroom-bench
	tools/profile.sh $(or $(ROW),create) $(INTO)

bench-sync: build ## what sync costs beside rclone, restic and syncthing: time, requests, bytes, memory; half an hour; INTO=folder saves it (root)
	cargo build --release --locked -p strongroom-server
	tools/bench_sync.py $(if $(INTO),--into $(INTO)) $(BENCH)

server-bench: build ## a server beside nginx and the disk: a start with 1,000,000 objects, small and large objects, publications, 10,000 devices that wait, memory, 1, 2 and 4 instances; half an hour; INTO=folder saves it
	cargo build --release --locked -p strongroom-server
	tools/server_bench.py $(if $(INTO),--into $(INTO)) $(BENCH)

bench-bindings: setup ## what calls from C, Python and Java cost beside Rust, a file of 1 GiB, 10,000 small ones, the size of the C library; INTO=folder saves it
	tools/bench_bindings.py $(if $(INTO),--into $(INTO)) $(BENCH)

bench-peers: ## install the file systems that bench compares with (root)
	tools/bench-peers.sh

.PHONY: bench-build
bench-build:
	cargo build --release --locked -p strongroom-bench

million: build ## a directory of 1,000,000 files: time per entry, snapshots of it, memory (root)
	tools/million.py

scale: build ## each figure at ten times the work: 10 GiB, 100,000 entries, 1,000 open files, 64 clients; memory (root)
	tools/scale.py $(if $(INTO),--into $(INTO))

history: build ## the last 200 commits of this repository replayed into a mount, a snapshot each: all compared, space against restic (root)
	tools/history.py $(or $(REPOSITORY),.) $(or $(COMMITS),200)

sync-demo: build ## one vault on two devices through an S3 server: paired, mounted, cut off, joined, lost and brought back (root)
	tools/sync_demo.py

serve-demo: build ## a server with TLS and an account; devices notify each other, a third one pairs, kill -9 of the server, a quota, what it sees (root)
	cargo build --release --locked -p strongroom-server
	tools/serve_demo.py

rotate: build ## keys change under load on a vault of 5 GiB, killed five times: all under the new epoch, nothing lost (root)
	tools/rotate.py 5 5

churn: build ## an hour of files made, rewritten and removed without snapshots: what the vault wastes stays within its bound (root)
	tools/churn.py $(or $(MINUTES),60)

demo: build ## the main job on real files: mount, git, 1 GiB, kill -9, compare
	tools/demo.sh

vectors: ## write the test vectors again, by the independent implementation
	tools/vectors/run.sh

changelog: ## collect changes/ into CHANGELOG.md as one release: make changelog VERSION=0.2.0
	tools/changelog.py $(VERSION)

clean: ## remove what was built
	cargo clean
	rm -rf $(TOOLS)
