# Two commands do all the set-up: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
ONCE = @echo "Installing into $(VENV), once; most of the time goes to PyTorch ..."
TWINE := .venv-dist/bin/twine
OLDEST := .venv-oldest
OLDEST_PINS := constraints-oldest.txt
OLDEST_PIP := $(OLDEST)/bin/uv pip install --quiet --python $(OLDEST)/bin/python -c $(OLDEST_PINS)
# Found wherever they are: the fuzzer, and files marked `pytest.mark.oldest`.
FUZZ_TESTS = $(shell find tests -name test_fuzz.py)
OLDEST_TESTS = $(shell grep -rl --include='test_*.py' 'pytest\.mark\.oldest' tests)

.PHONY: demo test test-all test-oldest fuzz lint types dist clean

demo: $(VENV)/demo.done
	$(BIN)/scroll demo

# All but the sweeps marked `exhaustive`, which CI runs with `make test-all`.
test: $(VENV)/test.done
	$(BIN)/python -m pytest -m "not exhaustive"

test-all: $(VENV)/test.done
	$(BIN)/python -m pytest

# More cases than in `make test`, different ones each time; ONLY=tables:137 repeats one case.
CASES ?= 5000
SEED ?= $(shell date +%s)
fuzz: $(VENV)/test.done
	FUZZ_CASES=$(CASES) FUZZ_SEED=$(SEED) FUZZ_ONLY=$(ONLY) $(BIN)/python -m pytest $(FUZZ_TESTS)

# The tests marked `oldest`, with the lowest versions that pyproject.toml declares, in Python 3.10
# or 3.11.
test-oldest: $(OLDEST)/test.done
	$(OLDEST)/bin/python -m pytest -m "not exhaustive" $(OLDEST_TESTS)

lint: $(VENV)/test.done
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/test.done
	$(BIN)/mypy

# The source distribution and the wheel, checked as the package index checks them.
dist: $(VENV)/base.done $(TWINE)
	rm -rf dist
	$(BIN)/hatchling build
	$(TWINE) check --strict dist/*

$(TWINE):
	$(PYTHON) -m venv $(@D:/bin=)
	$(@D)/python -m pip install --quiet --disable-pip-version-check twine==7.0.0

clean:
	rm -rf $(VENV) $(OLDEST) .venv-dist dist demo.png

# The build backend is installed beside the package, so that constraints.txt pins it too.
$(VENV)/base.done: pyproject.toml paper/pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(ONCE)
	@$(PIP) hatchling editables
	@touch $@

$(VENV)/demo.done: $(VENV)/base.done
	@$(PIP) --no-build-isolation -e ".[plots]"
	@touch $@

$(VENV)/test.done: $(VENV)/base.done
	@$(PIP) --no-build-isolation -e ".[dev]" -e "./paper[dask,encoders]"
	@touch $@

$(OLDEST)/test.done: pyproject.toml $(OLDEST_PINS)
	@test -x $(OLDEST)/bin/python || $(PYTHON) -m venv $(OLDEST)
	@echo "Installing the lowest versions into $(OLDEST), once: 5 GB where PyTorch brings CUDA ..."
	@$(OLDEST)/bin/python -m pip install --quiet --disable-pip-version-check -c $(OLDEST_PINS) uv
	@$(OLDEST_PIP) hatchling editables
	@$(OLDEST_PIP) --no-build-isolation -e ".[test]"
	@touch $@
