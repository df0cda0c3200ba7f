# Everything that you can do with this checkout. `make` alone shows the list.
#
# Choices, given after the target: PYTHON=python3.12  PORT=9000  ARGS=--no-browser
# PIP_ARGS='...' is passed to pip.

PYTHON ?= python3
PORT ?=
ARGS ?=
PIP_ARGS ?=

BIN := .venv/bin
BOOTSTRAP = command -v $(PYTHON) >/dev/null || \
  { echo "There is no command '$(PYTHON)': install Python 3.11 or newer, or name one: make lab PYTHON=python3.12" >&2; exit 1; }; \
  $(PYTHON) bootstrap.py --pip-args='$(PIP_ARGS)'
PORT_OPTION = $(if $(PORT),--port $(PORT))

.DEFAULT_GOAL := help
.PHONY: help lab clean

help: ## this page
	@echo "Bits & Gradients: what you can type here"
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo "New here? Type: make lab"
	@echo "The first time, it downloads PyTorch and JupyterLab; after that it starts in seconds, without network."
	@echo "Another port: make lab PORT=9000. Another Python: make lab PYTHON=python3.12."

lab: ## for students: set up, copy the chapters to work/, open JupyterLab there
	@$(BOOTSTRAP) lab
	@$(BIN)/bits lab $(PORT_OPTION) $(ARGS)

clean: ## remove what the tools leave behind; never work/, never .venv
	@rm -rf build .pytest_cache .ruff_cache .hypothesis
	@find . \( -name .venv -o -name work -o -name .git \) -prune -o -type d -name __pycache__ -exec rm -rf {} +

# Targets for instructors and maintainers; the students' copy does not have them.
-include staff.mk
