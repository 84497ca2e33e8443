# Two commands do all the set-up: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
ONCE = @echo "Installing into $(VENV), once; most of the time goes to PyTorch ..."

.PHONY: demo test fuzz lint types clean

demo: $(VENV)/demo.done
	$(BIN)/scroll demo

test: $(VENV)/test.done
	$(BIN)/python -m pytest

# Longer than the part in `make test`, and other cases each time; ONLY=tables:137 runs one again.
CASES ?= 5000
SEED ?= $(shell date +%s)
fuzz: $(VENV)/test.done
	FUZZ_CASES=$(CASES) FUZZ_SEED=$(SEED) FUZZ_ONLY=$(ONLY) $(BIN)/python -m pytest tests/test_fuzz.py

lint: $(VENV)/test.done
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/test.done
	$(BIN)/mypy

clean:
	rm -rf $(VENV) demo.png

# The build backend is installed beside the package, so that constraints.txt pins it too.
$(VENV)/base.done: pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(ONCE)
	@$(PIP) hatchling editables
	@touch $@

$(VENV)/demo.done: $(VENV)/base.done
	@$(PIP) --no-build-isolation -e ".[plots]"
	@touch $@

$(VENV)/test.done: $(VENV)/base.done
	@$(PIP) --no-build-isolation -e ".[dev]"
	@touch $@
