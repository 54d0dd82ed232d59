# Every target makes the environment that it needs, and reuses it; nothing but Python ≥ 3.11 is
# needed before.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
MARKS = $(VENV)/.festina
# Tests run side by side, one process per core but never more than four; a file stays together, and
# so do the tests of an experiment, since most of their time is tracing and compilation.
WORKERS ?= $(shell $(PYTHON) -c "import os; print(min(4, os.cpu_count() or 1))")

.PHONY: demo test test-slow fuzz bench lint clean

demo: $(MARKS)/posterior
	$(BIN)/festina reproduce saddles/figure-1 race/xor haste/mixed coding/schemes --quick

test: $(MARKS)/test
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup

test-slow: $(MARKS)/test
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup -m slow

# Other inputs each time; `make fuzz SEED=…` repeats those of a failure.
SEED := $(or $(SEED),$(shell $(PYTHON) -c "import random; print(random.randrange(10**9))"))
fuzz: $(MARKS)/test
	@echo "SEED=$(SEED)"
	$(BIN)/python -m pytest tests/fuzz -m fuzz -n $(WORKERS) --dist loadgroup --hypothesis-seed=$(SEED)

lint: $(MARKS)/test
	$(BIN)/ruff check src tests benchmarks
	$(BIN)/ruff format --check src tests benchmarks
	$(BIN)/pyright

bench: $(MARKS)/bench
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV)

# Installed again when pyproject.toml changes.
$(MARKS)/%: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable ".[$*]"
	mkdir -p $(MARKS) && touch $@
