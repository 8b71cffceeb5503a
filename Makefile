# Every chore of vkbench; `make` alone lists them.
VENV := .venv
BIN := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1

# Kernels are compiled again when the catalogue or a shader changed; unchanged ones come from the cache.
SHADERS := $(shell find shaders/vkbench_shaders -name '*.slang' -o -name '*.py')

# What tests may not do without; elsewhere than in CI there may be no newer lavapipe, and no ggml.
REQUIRED := browser,gpu,swiftshader,redis,postgres,validation,index,glslang,programs$(CI:%=,new-lavapipe,ggml)

.DEFAULT_GOAL := help
.PHONY: help setup bench test attack chaos soak validate builds quick plans tables snapshots screenshots pages check offline lock docs clean

help: ## list these targets
	@sed -nE 's/^([a-z]+):.*## (.*)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 10

setup: $(VENV)/all.stamp $(VENV)/shaders.stamp ## make .venv with every extra, editable

bench: $(VENV)/worker.stamp $(VENV)/begun.stamp ## set up this machine and print the table of the quick suite
	@scripts/driver $(VENV)
	@VKBENCH_DATA=$(VENV)/bench $(BIN)/vkbench run --suite quick

# A process a core: threads that multiply matrices for one would keep those of others waiting.
quick test: export OPENBLAS_NUM_THREADS := 1

test: setup ## set up what the tests need, and run them all (ARGS="-k name" for some)
	@scripts/services
	@scripts/new-lavapipe $(VENV) || true
	@scripts/ggml $(VENV) || true
	@scripts/ggml-shaders $(VENV) || true
	@VKBENCH_REQUIRE=$(REQUIRED) scripts/tests $(BIN)/pytest $(ARGS)

attack: setup ## try what strangers may do to hosts, to Redis and to the pages; each attempt is told
	@scripts/services
	@VKBENCH_REQUIRE=redis,postgres $(BIN)/pytest --verbose --no-header tests/attack $(ARGS)

chaos: setup ## 300 faults of all kinds while 10,000 jobs run, in twenty minutes (ARGS="--seed 2")
	@scripts/services
	@$(BIN)/python tests/planted/chaos.py $(ARGS)

soak: setup ## 100,000 jobs through the queue and 10,000 on lavapipe: does anything grow? a quarter of an hour
	@scripts/services
	@$(BIN)/python benchmarks/soak.py queue
	@$(BIN)/python benchmarks/soak.py runner

validate: setup ## every kernel by every variant under the validation layer (ARGS="--kernel add")
	@scripts/services
	@scripts/new-lavapipe $(VENV) || true
	@$(BIN)/python tests/planted/validated.py $(ARGS)
	@[ ! -x $(VENV)/new-lavapipe/bin/python ] || $(VENV)/new-lavapipe/bin/python tests/planted/validated.py $(ARGS)

builds: setup ## eight releases of ggml-vulkan on lavapipe: judged, timed, searched for planted faults; a quarter of an hour
	@scripts/services
	@scripts/new-lavapipe $(VENV)
	@scripts/ggml $(VENV) eight
	@$(VENV)/new-lavapipe/bin/python tests/planted/eight_builds.py $(ARGS)

quick: setup ## formatter, linter, types, and tests without servers and GPUs, in two minutes (ARGS="-k name")
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy
	@$(BIN)/pyrefly check --summary=none
	@$(BIN)/pytest -q --numprocesses=auto --dist=worksteal -m "not slow" \
	  $(addprefix tests/,vkbench shaders worker scheduler local cli contract) $(ARGS)

plans: setup ## what the plans that vkbench grew from ask for, beside what a database has (ARGS="--device '*'")
	@$(BIN)/python -m plans $(ARGS)

tables: setup ## check tuning tables that were sent in, and merge them into those that ship (make tables FILE...)
	@$(BIN)/python scripts/merge_tables.py $(TABLES)

# What follows `tables` are files.
ifeq (tables,$(firstword $(MAKECMDGOALS)))
TABLES := $(wordlist 2,$(words $(MAKECMDGOALS)),$(MAKECMDGOALS))
.PHONY: $(TABLES)
$(TABLES): tables ; @:
endif

snapshots: setup ## write anew what tests expect people to see at 80 columns
	@$(BIN)/pytest -q tests/cli/test_snapshots.py --renew

pages: setup ## write anew the pages that are made: of the code (modules, suites, views), of exports (docs/results)
	@$(BIN)/python scripts/pages.py
	@$(BIN)/python benchmarks/results/result_pages.py

check: setup ## formatter, linter, two type checkers, import contract, pages made from the code
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/pyrefly check --summary=none
	$(BIN)/lint-imports
	$(BIN)/python scripts/pages.py --check

offline: PYTHON ?= 3.12
offline: setup ## make offline/, which installs a worker without a network (PYTHON=3.12)
	@scripts/offline $(PYTHON) $(VENV)

lock: setup ## write the lock files of the image anew, with the newest versions
	@scripts/lock $(VENV)

docs: setup ## write the documentation as a site to site/
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

screenshots: setup ## take the pictures of docs/img again, in Chromium
	@$(BIN)/python scripts/screenshots.py

clean: ## remove all that these targets made
	rm -rf $(VENV) offline dist site shaders/vkbench_shaders/spirv
	rm -rf .mypy_cache .ruff_cache .pytest_cache .import_linter_cache

$(VENV)/all.stamp: pyproject.toml hatch_build.py
	@scripts/venv $(VENV) all
	@touch $(VENV)/worker.stamp $(VENV)/begun.stamp $@

$(VENV)/worker.stamp: pyproject.toml hatch_build.py
	@scripts/venv $(VENV) worker
	@touch $(VENV)/begun.stamp $@

# What one suite does not need is left to its first need.
$(VENV)/begun.stamp: $(SHADERS)
	@$(BIN)/python -m vkbench_shaders.compile.build --begin
	@touch $@

$(VENV)/shaders.stamp: $(SHADERS)
	@$(BIN)/python -m vkbench_shaders.compile.build
	@touch $(VENV)/begun.stamp $@
