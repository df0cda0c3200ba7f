# Everything a person does with this checkout. `make` alone shows the list.
#
# Choices, given after the target: PYTHON=python3.12  PORT=9000  ARGS=--no-browser
# PIP_ARGS='...' is passed to pip, PYTEST_ARGS='-k bootstrap' to pytest.

PYTHON ?= python3
PORT ?=
ARGS ?=
PIP_ARGS ?=
PYTEST_ARGS ?=

BIN := .venv/bin
BOOTSTRAP = command -v $(PYTHON) >/dev/null || \
  { echo "There is no command '$(PYTHON)': install Python 3.11 or newer, or name one: make lab PYTHON=python3.12" >&2; exit 1; }; \
  $(PYTHON) bootstrap.py --pip-args='$(PIP_ARGS)'
PORT_OPTION = $(if $(PORT),--port $(PORT))

.DEFAULT_GOAL := help
.PHONY: help lab staff setup build book book-serve test bench format clean

help: ## this page
	@echo "Bits & Gradients: what you can type here"
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
	@echo
	@echo "New here? Type: make lab"
	@echo "The first time it downloads PyTorch and JupyterLab; after that it starts in seconds, without network."
	@echo "Another port: make lab PORT=9000. Another Python: make lab PYTHON=python3.12."

lab: ## for students: set up, copy the chapters to work/, open JupyterLab there
	@$(BOOTSTRAP) lab
	@$(BIN)/bits lab $(PORT_OPTION) $(ARGS)

staff: ## for instructors: set up, open JupyterLab with nbgrader's formgrader
	@$(BOOTSTRAP) instructor
	@$(BIN)/bits staff $(PORT_OPTION) $(ARGS)

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
	@$(BIN)/bits book --serve $(ARGS)

# The notebooks come before the tests: what was not run is then the last thing on the screen.
# In a notebook, a deprecation that the notebook's own code causes is an error.
test: setup ## for maintainers: set up, check the style, the notebooks and all the code
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@PYTHONWARNINGS=error::DeprecationWarning:__main__,error::FutureWarning:__main__ \
	  $(BIN)/python -m pytest -q -n 2 --dist loadfile --nbval --nbval-sanitize-with tests/nbval_sanitize.cfg course/source
	@$(BIN)/python -m pytest -q -n 2 --dist loadgroup $(PYTEST_ARGS)

bench: ## for maintainers: how fast a class is graded, in build/bench; ARGS='--most 100'
	@$(BOOTSTRAP) maintainer
	@$(BIN)/python -m benchmarks $(ARGS)

format: ## for maintainers: bring the code into the house style
	@$(BOOTSTRAP) maintainer
	@$(BIN)/ruff check --fix
	@$(BIN)/ruff format

clean: ## remove what the tools leave behind; never work/, never .venv
	@rm -rf build .pytest_cache .ruff_cache .hypothesis
	@find . \( -name .venv -o -name work -o -name .git \) -prune -o -type d -name __pycache__ -exec rm -rf {} +
