# Two commands do everything on a machine with Python >= 3.11, git and make:
#   make demo   install, start a server on 127.0.0.1:8000 and stream a data set through it
#   make test   install and run every check
PYTHON ?= python3
BIN := .venv/bin
# Of the tests, which wait for others a third of their time: one more than two cores. With 0 they run in pytest's own
# process, where a debugger can be used.
# MANYLABEL_TEST_REDIS_SERVER=path runs the tests on another Redis than the one they bring along (docs/design.md).
TEST_PROCESSES ?= 3
INSTALLED := .venv/installed

.PHONY: demo test types compiled test-long format bench-online bench-http bench-batch bench-streams bench-budget bench-calibration deploy-check clean

demo: $(INSTALLED)
	$(BIN)/manylabel demo

test: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(MAKE) --no-print-directory --jobs 2 types compiled
	$(BIN)/pytest -n $(TEST_PROCESSES) --dist worksteal --durations 25

types: $(INSTALLED)
	$(BIN)/mypy
	$(BIN)/lint-imports

# What each process of the tests would otherwise compile for itself, at the same time, in a fresh clone.
compiled: $(INSTALLED)
	$(BIN)/python -m tests.support.loaded_server
	$(BIN)/python -m manylabel_service.jobs.training.warmup

# Minutes of mixed traffic on three replicas while they and their Redis are killed.
test-long: $(INSTALLED)
	$(BIN)/pytest -m long --durations 25 -o faulthandler_timeout=3600

format: $(INSTALLED)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench-online bench-http bench-batch: bench-%: $(INSTALLED)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[bench]'
	$(BIN)/python -m benchmarks $*

# On public data sets, in a folder of .npz files: make bench-streams DATA=folder
bench-streams bench-budget bench-calibration: bench-%: $(INSTALLED)
	$(BIN)/python -m benchmarks $* --data $(DATA)

# Needs Docker: builds and runs docker-compose.yml, kills its parts, and looks whether anything was lost.
deploy-check:
	$(PYTHON) -m tests.deployment.check

$(INSTALLED): pyproject.toml constraints.txt
	test -d .venv || $(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	touch $@

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis dist
