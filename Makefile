# make demo     the whole story on generated people (installs into .venv the first time)
# make test     the whole set-up, then lint, types, import contracts, doctests, tests; what CI runs
# make verify   the long statistical counts; run before calling something done
# make audit    the package against its own promise: exact losses, sampled bounds, releases of neighbours, mutants; about
#               an hour on two idle cores (less: AUDIT=--quick, or AUDIT="--releases 2000"); lab/evidence/audit.md
# make mutants  faults planted in the package, one at a time, each with the test that must catch it; some minutes
# make fuzz     10,000 forged files of every format, and as many questions and sources; counts are printed
# make faults   kills, interrupts, full disks, closed folders, other times, 200 of each; files torn at 500 lengths;
#               texts of 30 MB that are refused, plain and packed, 20 times each
# make bench    speed and accuracy against floors and peers, written to lab/benchmarks/results.md
#               (CROSSTALLY_DATA=folder uses the public files in it: lab/benchmarks/README.md)
# make bench-peers  draw OpenDP's AIM and MST again (an hour); make bench draws only what is not kept
# make docs     the site, into site/, with the command line reference from --help
# make tour     the output shown in the README, the tutorial of the messy file, the analyst's notebook and the gallery
# make lock     requirements-test.lock, for tests, and constraints.txt, for users, from pyproject.toml
# make setup    just install, the laboratory (lab/) too
# make system   install the Debian packages of packages.txt (as root), or say what is missing

PYTHON ?= python3
BIN := .venv/bin
# Material for MkDocs prints a note about its successor as a warning (RELEASING.md)
export NO_MKDOCS_2_WARNING := 1

.PHONY: demo setup system test verify audit mutants fuzz faults bench bench-peers docs tour lock

demo: .venv/crosstally
	@$(BIN)/crosstally demo

setup: .venv/developer

test: system .venv/developer
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	OPENBLAS_NUM_THREADS=1 $(BIN)/pytest -q -rs -n 2 --dist loadgroup -m "not verify"

verify: .venv/developer
	OPENBLAS_NUM_THREADS=1 $(BIN)/pytest -q -n 2 -m verify -o faulthandler_timeout=3600

# Each part is a line of its own and ends with 1 where something is found.
# Ledgers flush to the disk at every step: a folder in memory, where there is one, saves most of the waiting.
AUDIT ?=
AUDITED := TMPDIR=$(firstword $(wildcard /dev/shm /tmp)) OPENBLAS_NUM_THREADS=1

audit: .venv/developer
	$(AUDITED) $(BIN)/crosstally audit --jobs 2 $(AUDIT) --kept audit-kept.json -o audit-report.md
	$(AUDITED) PYTHONPATH=tests:lab/tests $(BIN)/python -m audit_mutants
	$(AUDITED) PYTHONPATH=tests $(BIN)/python -m faults --count 200

# Files whose names begin as MUTANTS says, all without: make mutants MUTANTS=local/
MUTANTS ?=

mutants: .venv/developer
	OPENBLAS_NUM_THREADS=1 PYTHONPATH=tests $(BIN)/python -m mutants $(MUTANTS)

FUZZED := 10000

fuzz: .venv/developer
	OPENBLAS_NUM_THREADS=1 PYTHONPATH=tests $(BIN)/python -m fuzz --count $(FUZZED)

faults: .venv/developer
	OPENBLAS_NUM_THREADS=1 PYTHONPATH=tests $(BIN)/python -m faults --count 200

BENCH := PYTHONPATH=lab OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 CROSSTALLY_PEERS=.peers/bin/python \
    CROSSTALLY_PEERS_OPENDP=.peers-opendp/bin/python $(BIN)/python -m

bench: .venv/developer .peers/ready .peers-opendp/ready
	$(BENCH) benchmarks

bench-peers: .venv/developer .peers-opendp/ready
	$(BENCH) benchmarks.accuracy.peers --renew

docs: .venv/developer
	$(BIN)/python docs/cli_page.py
	$(BIN)/python docs/trusted_page.py
	$(BIN)/mkdocs build --strict --quiet
	@echo "open site/index.html"

tour: .venv/developer
	$(BIN)/python docs/tour.py
	$(BIN)/python docs/messy_page.py
	$(BIN)/python docs/notebook_page.py
	$(BIN)/python docs/gallery.py

lock:
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --extra dev \
	    pyproject.toml -o requirements-test.lock
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --extra all \
	    -c requirements-test.lock pyproject.toml -o constraints.txt

# What packages.txt names, without those that it keeps away (a minus behind the name)
PACKAGES = $(shell grep -v -e '^\#' -e '-$$' packages.txt)

system:
	@missing=$$(for each in $(PACKAGES); do dpkg -s "$$each" > /dev/null 2>&1 || echo "$$each"; done); \
	if [ -z "$$missing" ]; then exit 0; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null; then \
	    apt-get update -qq && grep -v '^#' packages.txt | xargs apt-get install -y -qq; \
	else echo "Not installed:" $$missing; \
	    echo "Tests that need them are left out, and listed with the reason. On Debian: sudo make system"; fi

.venv/crosstally: pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "Installing crosstally into .venv (once, one or two minutes) ..." >&2
	@$(BIN)/pip install -q --disable-pip-version-check -e '.[all]'
	@$(BIN)/python -m crosstally.kernels
	@touch $@

.venv/developer: pyproject.toml lab/pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install -q --disable-pip-version-check -e '.[dev]' -e lab
	$(BIN)/python -m crosstally.kernels
	@touch $@ .venv/crosstally

.peers/ready: lab/benchmarks/peers.txt
.peers-opendp/ready: lab/benchmarks/peers-opendp.txt
.peers/ready .peers-opendp/ready:
	@test -x $(@D)/bin/python || $(PYTHON) -m venv $(@D)
	$(@D)/bin/pip install -q --disable-pip-version-check -r $<
	@touch $@
