# Every target makes the environment that it needs, and reuses it; nothing but Python ≥ 3.11 is
# needed before.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
MARKS = $(VENV)/.festina
# Tests run side by side, one process per core but never more than four; a file stays together, and
# so do the tests of an experiment, since most of their time is tracing and compilation.
WORKERS ?= $(shell $(PYTHON) -c "import os; print(min(4, os.cpu_count() or 1))")

.PHONY: demo test test-slow test-docs test-lowest test-newest fuzz bench lint docs gallery package clean

# One figure or more of each source; none needs MNIST.
DEMO = saddles/figure-1b saddles/figure-1d saddles/figure-1g linear/hierarchy-of-saddles race/xor \
	haste/mixed coding/schemes
demo: $(MARKS)/demo
	$(BIN)/festina reproduce $(DEMO) --quick

test: $(MARKS)/test
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup

test-slow: $(MARKS)/test
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup -m slow

# Tests with the lowest versions that pyproject.toml allows, and with the newest releases. uv makes
# an environment for each, with the Python that `PYTHON` names: make test-newest PYTHON=python3.14.
# `TESTS` names a part of the tests. On Linux, PyTorch comes with several gigabytes of CUDA
# libraries unless `UV_TORCH_BACKEND=cpu` is set.
test-lowest: RESOLUTION = lowest-direct
test-lowest: WARNINGS = $(foreach kind,Deprecation PendingDeprecation Future,-W ignore::$(kind)Warning)
test-newest: RESOLUTION = highest
test-lowest test-newest: test-%: $(MARKS)/package
	$(BIN)/uv venv --quiet --clear --python $(PYTHON) $(VENV)/$*
	VIRTUAL_ENV=$(VENV)/$* $(BIN)/uv pip install --resolution $(RESOLUTION) $(ALL) --group any-version
	$(VENV)/$*/bin/python -m pytest -n $(WORKERS) --dist loadgroup $(WARNINGS) $(TESTS)

# Builds source distribution and wheel in dist, and uses the wheel in an empty environment.
package: $(MARKS)/package
	rm -rf dist $(VENV)/installed
	$(BIN)/python -m build
	$(BIN)/twine check --strict dist/*
	$(BIN)/uvx --quiet --from dist/*.whl festina doctor
	$(PYTHON) -m venv $(VENV)/installed
	$(VENV)/installed/bin/python -m pip install --quiet dist/*.whl
	cd $(VENV)/installed && bin/festina run linear/learning-curves
	cd $(VENV)/installed && bin/festina report runs/linear/learning-curves/001

# Other inputs each time; `make fuzz SEED=…` repeats those of a failure.
SEED := $(or $(SEED),$(shell $(PYTHON) -c "import random; print(random.randrange(10**9))"))
fuzz: $(MARKS)/test
	@echo "SEED=$(SEED)"
	$(BIN)/python -m pytest tests/fuzz -m fuzz -n $(WORKERS) --dist loadgroup --hypothesis-seed=$(SEED)

lint: $(MARKS)/lint
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

# Links of the site, and its pages in Chromium.
test-docs: docs $(MARKS)/test
	$(BIN)/python -m pytest tests/pages -m slow

# The pictures and claims of the gallery are part of the repository. `festina reproduce` takes a
# quarter of an hour on two cores, keeps what it has finished, and so can be interrupted.
RUNS ?= runs
gallery: $(MARKS)/test
	$(BIN)/festina reproduce all --quick --out $(RUNS)
	$(BIN)/python docs/make_gallery.py $(RUNS)
	$(BIN)/python docs/make_scenes.py

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
	rm -rf $(VENV) dist docs/_build docs/_static/katex docs/api docs/experiments docs/gallery.md

# Packages that each target needs. All targets share one environment, which is installed again when
# pyproject.toml changes. Releases of pip before 25.1 do not know dependency groups.
ALL = --editable ".[cluster,explore,posterior,torch,video]"
$(MARKS)/demo: PACKAGES = --editable ".[posterior]"
$(MARKS)/test: PACKAGES = $(ALL) --group test
$(MARKS)/lint: PACKAGES = $(ALL) --group lint
$(MARKS)/bench: PACKAGES = --editable ".[explore,posterior]" --group bench
$(MARKS)/docs: PACKAGES = --editable . --group docs
$(MARKS)/package: PACKAGES = --group package
$(MARKS)/%: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet "pip>=25.1"
	$(BIN)/python -m pip install --quiet $(PACKAGES)
	mkdir -p $(MARKS) && touch $@
