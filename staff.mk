# What instructors and maintainers type. The Makefile reads it, and has the variables.
#
# PYTEST_ARGS='-k bootstrap' is passed to pytest. BASE=v1.0 is what `make check` compares with, if
# not with where the branch left the main one. MINUTES=10 is for each search of `make fuzz`.
# TORCH=2.4.1 tests chapters and exercises with another torch, in an environment of its own below
# build/; TORCH=newest with the newest one, TORCH=lowest with every package at its lower bound.

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

check: ## for maintainers: what your change can break, in about two minutes
	@$(BOOTSTRAP) maintainer --system-packages
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/python -m pytest -q -n 2 --dist loadfile --changed=$(BASE) --seconds 80 $(PYTEST_ARGS)

ifeq ($(TORCH),)
# The notebooks come before the tests: what was not run is then the last thing on the screen.
# In a notebook, a deprecation that the notebook's own code causes is an error.
# Notebooks keep two cores busy; tests wait for something a third of their time.
test: setup ## for maintainers: set up, check the style, the notebooks and all the code
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@PYTHONWARNINGS=error::DeprecationWarning:__main__,error::FutureWarning:__main__ \
	  $(BIN)/python -m pytest -q -n 2 --dist loadfile --nbval --nbval-sanitize-with tests/nbval_sanitize.cfg course/source
	@$(BIN)/python -m pytest -q -n 3 --dist loadfile $(PYTEST_ARGS)
else
# Outputs are not compared: another torch rounds, names and measures otherwise. The tests are those of
# what a chapter imports, and of every exercise with all its solutions.
OTHER := build/torch-$(TORCH)/venv
test:
	@$(BOOTSTRAP) maintainer --torch '$(TORCH)' --venv $(OTHER)
	@$(OTHER)/bin/python -m pytest -q -n 2 --dist loadfile --nbval-lax course/source
	@$(OTHER)/bin/python -m pytest -q -n 2 --dist loadfile --draws 1 $(PYTEST_ARGS) \
	  tests/test_exercises.py tests/test_chapter_*.py tests/test_checks.py tests/test_*_probes*.py \
	  tests/test_peak_memory.py tests/test_process_state.py tests/test_processes.py
endif

# One search after another: each looks at the clock.
fuzz: ## for maintainers: search for what grading cannot take or is slow with; MINUTES=10 each
	@$(BOOTSTRAP) maintainer
	@$(BIN)/python -m pytest -q -s -n 0 tests/test_fuzz.py --fuzz-minutes $(MINUTES) $(PYTEST_ARGS)

mutants: ## for maintainers: which changed solutions a check lets pass; ARGS='07 --visible-only'
	@$(BOOTSTRAP) maintainer
	@PYTHONPATH=tests $(BIN)/python -m mutants $(ARGS)

bench: ## for maintainers: how fast a class is graded, in build/bench; ARGS='--most 100'
	@$(BOOTSTRAP) maintainer
	@$(BIN)/python -m benchmarks $(ARGS)

format: ## for maintainers: bring the code into the house style
	@$(BOOTSTRAP) maintainer
	@$(BIN)/ruff check --fix
	@$(BIN)/ruff format

# Without isolation: the pinned packages of .venv build it, and no network is needed.
release: ## for maintainers: build the package, wheel and sdist, in build/dist
	@$(BOOTSTRAP) maintainer
	@rm -rf build/dist
	@$(BIN)/python -m build --no-isolation --outdir build/dist
	@$(BIN)/python -m twine check --strict build/dist/*
