# Targets for instructors and maintainers. The Makefile includes this file and defines the variables.
#
# PYTEST_ARGS='-k bootstrap' is passed to pytest. With BASE=v1.0, `make check` compares with that
# revision, not with where the branch left main. MINUTES=10 is the time of each search of `make fuzz`.
# TORCH=2.4.1 tests chapters and exercises with another torch, in a separate environment below
# build/; TORCH=newest with the newest torch, TORCH=lowest with every package at its lower bound.

PYTEST_ARGS ?=
BASE ?=
MINUTES ?= 10
TORCH ?=

.PHONY: staff demo setup build book book-serve check test fuzz mutants bench format release

staff: ## for instructors: set up, open JupyterLab with nbgrader's formgrader
	@$(BOOTSTRAP) instructor
	@$(BIN)/bits staff $(PORT_OPTION) $(ARGS)

demo: ## for instructors: set up, grade an invented class, open its report
	@$(BOOTSTRAP) instructor
	@$(BIN)/bits demo $(ARGS)

setup: ## for maintainers: set up everything, open nothing
	@$(BOOTSTRAP) maintainer --system-packages

build: ## for maintainers: make the notebooks from course/chapters and run them
	@$(BOOTSTRAP) maintainer
	@$(BIN)/bits build $(ARGS)

book: ## for maintainers: make the website in build/book
	@$(BOOTSTRAP) maintainer
	@$(BIN)/bits book $(ARGS)

book-serve: ## for maintainers: make the website and show it while you write
	@$(BOOTSTRAP) maintainer
	@$(BIN)/bits book --serve $(PORT_OPTION) $(ARGS)

check: ## for maintainers: the style and the tests that your change can reach, in two minutes
	@$(BOOTSTRAP) maintainer --system-packages
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/python -m pytest -q -n 2 --dist loadfile --changed=$(BASE) --seconds 80 $(PYTEST_ARGS)

ifeq ($(TORCH),)
# The notebooks come before the tests, so that the skipped tests are the last lines on the screen.
# In a notebook, a deprecation that the notebook's own code causes is an error.
# Notebooks keep two cores busy; tests spend half of their time waiting. The last chapter takes as
# long as half of the others: it begins first.
test: setup ## for maintainers: set up, check the style, run the notebooks and all tests
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@PYTHONWARNINGS=error::DeprecationWarning:__main__,error::FutureWarning:__main__ \
	  $(BIN)/python -m pytest -q -n 2 --dist loadfile --no-loadscope-reorder \
	  --nbval --nbval-sanitize-with tests/nbval_sanitize.cfg $$(ls -dr course/source/*/)
	@$(BIN)/python -m pytest -q -n 4 --dist loadfile $(PYTEST_ARGS)
else
# Outputs are not compared, because another torch rounds, names and measures differently. The tests cover
# the modules that a chapter imports, and every exercise with all its solutions.
OTHER := build/torch-$(TORCH)/venv
test:
	@$(BOOTSTRAP) maintainer --torch '$(TORCH)' --venv $(OTHER)
	@$(OTHER)/bin/python -m pytest -q -n 2 --dist loadfile --nbval-lax course/source
	@$(OTHER)/bin/python -m pytest -q -n 2 --dist loadfile --draws 1 $(PYTEST_ARGS) \
	  tests/test_exercises.py tests/test_chapter_*.py tests/test_checks.py tests/test_*_probes*.py \
	  tests/test_peak_memory.py tests/test_process_state.py tests/test_processes.py
endif

# One search after another, because each one measures time.
fuzz: ## for maintainers: search for input that breaks or slows down grading; MINUTES=10 each
	@$(BOOTSTRAP) maintainer
	@$(BIN)/python -m pytest -q -s -n 0 tests/test_fuzz.py --fuzz-minutes $(MINUTES) $(PYTEST_ARGS)

mutants: ## for maintainers: find wrong solutions that a check misses; ARGS='07 --visible-only'
	@$(BOOTSTRAP) maintainer
	@PYTHONPATH=tests $(BIN)/python -m mutants $(ARGS)

bench: ## for maintainers: measure how fast a class is graded, in build/bench; ARGS='--most 100'
	@$(BOOTSTRAP) maintainer
	@$(BIN)/python -m benchmarks $(ARGS)

format: ## for maintainers: format the code
	@$(BOOTSTRAP) maintainer
	@$(BIN)/ruff check --fix
	@$(BIN)/ruff format

# Without isolation: the pinned packages of .venv build it, and no network is needed.
release: ## for maintainers: build the package, wheel and sdist, in build/dist
	@$(BOOTSTRAP) maintainer
	@rm -rf build/dist
	@$(BIN)/python -m build --no-isolation --outdir build/dist
	@$(BIN)/python -m twine check --strict build/dist/*
