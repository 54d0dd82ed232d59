# Every target makes the environment that it needs, and reuses it; nothing but Python ≥ 3.11 is
# needed before.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
MARKS = $(VENV)/.festina
# Tests run side by side, one process per core but never more than four; a file stays together, and
# so do the tests of an experiment, since most of their time is tracing and compilation.
WORKERS ?= $(shell $(PYTHON) -c "import os; print(min(4, os.cpu_count() or 1))")

.PHONY: demo test test-slow fuzz bench lint docs gallery clean

# One figure or more of each source; none needs MNIST.
DEMO = saddles/figure-1b saddles/figure-1d saddles/figure-1g linear/hierarchy-of-saddles race/xor \
	haste/mixed coding/schemes
demo: $(MARKS)/posterior
	$(BIN)/festina reproduce $(DEMO) --quick

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
	$(BIN)/ruff check src tests benchmarks docs
	$(BIN)/ruff format --check src tests benchmarks docs/*.py docs/_ext
	$(BIN)/pyright

bench: $(MARKS)/bench
	$(BIN)/python -m benchmarks

# The site, in docs/_build. KaTeX draws its formulae; the package comes from npm, a part of Node.js.
docs: $(MARKS)/docs docs/_static/katex
	rm -rf docs/_build $(VENV)/doctrees
	$(BIN)/sphinx-build -W --keep-going -j auto -q -d $(VENV)/doctrees docs docs/_build
	@echo "The site is docs/_build/index.html."

# The pictures and claims of the gallery are part of the repository. `festina reproduce` takes an
# TIME on two cores, keeps what it has finished, and so can be interrupted.
RUNS ?= runs
gallery: $(MARKS)/posterior
	$(BIN)/festina reproduce all --quick --out $(RUNS)
	$(BIN)/python docs/make_gallery.py $(RUNS)

docs/_static/katex:
	@command -v npm > /dev/null || { \
	  echo "make docs needs npm (it comes with Node.js) to fetch KaTeX, which draws formulae."; exit 1; }
	@rm -rf $(VENV)/katex && mkdir -p $(VENV)/katex
	@cd $(VENV)/katex && npm pack --silent katex@0.19 > /dev/null || { \
	  echo "npm could not fetch KaTeX: is the package index within reach?"; exit 1; }
	@cd $(VENV)/katex && tar xzf katex-*.tgz
	mkdir -p $@ && cp -r $(VENV)/katex/package/dist/katex.min.js \
	  $(VENV)/katex/package/dist/katex.min.css $(VENV)/katex/package/dist/fonts $@

clean:
	rm -rf $(VENV) docs/_build docs/_static/katex docs/api docs/experiments docs/gallery.md

# Installed again when pyproject.toml changes.
$(MARKS)/%: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable ".[$*]"
	mkdir -p $(MARKS) && touch $@
