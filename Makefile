# Everything here needs Python 3.11+, make and the package registries; each target sets up what it needs in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
NODE_DIR := tests/node
# The tests and the conformance check start many programs, which are twice as fast with compiled files.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run serve web node official-examples docs commands constraints screens clean
.PHONY: test test-long mutants soak cluster-check interop bench bench-cluster bench-coder bench-gateway bench-proxy
.PHONY: bench-run bench-tui
.PHONY: check check-types check-docs-types check-lint check-imports check-public-types conform
.PHONY: conform-agent conform-client conform-agent-2 conform-client-2
.DEFAULT_GOAL := run

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "accord needs Python 3.11 or newer; this is %s. Set PYTHON=..." % sys.version.split()[0])'
	@$(PYTHON) -m venv $(VENV)

$(VENV)/core.stamp: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	@touch $@

# The extra contains the package: to install that first would resolve and build everything twice.
$(VENV)/dev.stamp: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $(VENV)/core.stamp $@

# The official TypeScript SDK, whose JSON Schemas are the reference and whose classes are the peers of the interop
# tests, and a checker for workflows.
node: $(VENV)/dev.stamp
	@if command -v npm >/dev/null; then \
	  cd $(NODE_DIR) && { test node_modules/.package-lock.json -nt package-lock.json || npm ci --silent --no-audit --no-fund; }; \
	else echo "npm not found: tests that need Node are skipped"; fi

# The examples of the official Python SDK, for the tests of accord.compat, and its pre-release with version 2.
official-examples: $(VENV)/dev.stamp
	@$(BIN)/python -m tools.official_examples

# The main job, from nothing to a finished turn: the client, the coding agent and the model inside the package.
run: $(VENV)/core.stamp
	@ACCORD_HOME="$(CURDIR)/$(VENV)/home" $(BIN)/accord run -a accord --model rehearsal \
	  "plan: look around; read; sum up then list src/accord then search for rehearsal in README.md then read Makefile"

# The page of the gateway, built into the package; its source is in web/.
web:
	@if command -v npm >/dev/null && node -e 'const [a, b] = process.versions.node.split("."); process.exit(a > 20 || (a == 20 && b >= 19) ? 0 : 1)'; then \
	  cd web && { test node_modules/.package-lock.json -nt package-lock.json || npm ci --loglevel=error --no-audit --no-fund; } && npm run --silent build; \
	else echo "The page is not built: it needs npm and Node 20.19 or newer. The gateway works without it."; fi

$(VENV)/serve.stamp: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[gateway,agent]'
	@touch $(VENV)/core.stamp $@

# The gateway with its page, from nothing; SERVE="--port 9000" and the like are passed on.
serve: $(VENV)/serve.stamp web
	@$(BIN)/accord serve $(SERVE)

# In some more processes than there are processors; `.venv/bin/python -m pytest tests/wire` runs a part in one.
test: $(VENV)/dev.stamp node web official-examples
	$(BIN)/python -m pytest -n auto --dist worksteal

# All repetitions of the tests with random values, of which `make test` runs a part.
test-long: export LONG_TESTS := 1
test-long: test

# The longest part goes first; the others run beside it.
check: $(VENV)/dev.stamp
	@$(MAKE) --no-print-directory -j2 check-types check-docs-types check-lint check-imports check-public-types

check-types: $(VENV)/dev.stamp
	$(BIN)/pyright

# The code of README.md and docs/, and the examples, as users of the library check them.
check-docs-types: $(VENV)/dev.stamp
	$(BIN)/python -m tools.snippets $(VENV)/snippets
	$(BIN)/mypy --strict --python-version 3.11 --cache-dir $(VENV)/mypy_cache $(VENV)/snippets examples
	$(BIN)/pyright --project $(VENV)/snippets

check-lint: $(VENV)/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

check-imports: $(VENV)/dev.stamp
	$(BIN)/lint-imports

check-public-types: $(VENV)/dev.stamp
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/pyright --verifytypes accord --ignoreexternal \
	  >$(VENV)/types.txt || { grep -B1 'error:' $(VENV)/types.txt; exit 1; }

# 400 small changes of the source, each of which must make a test fail. Continues where it was stopped.
mutants: $(VENV)/dev.stamp
	nice $(BIN)/python -m tests.mutants $(MUTANTS)

# Real programs, killed and disturbed at random for MINUTES; SEED repeats a run.
MINUTES ?= 2
soak: $(VENV)/dev.stamp
	$(BIN)/python -m tests.soak --minutes $(MINUTES) $(if $(SEED),--seed $(SEED))

# Three NATS servers and three nodes, killed, stopped and cut off at random for MINUTES; then the promises of
# docs/cluster.md are verified. SEED repeats the decisions of a run, BUG breaks a promise on purpose.
cluster-check: $(VENV)/dev.stamp
	$(BIN)/python -m tests.cluster_check --minutes $(MINUTES) $(if $(SEED),--seed $(SEED)) $(if $(BUG),--bug $(BUG)) \
	  $(if $(TAKEOVERS),--takeovers $(TAKEOVERS))

# What the package says of itself: its agent and its client follow the protocol, with the rules that have to be seen.
# Long waits, for a machine that is busy.
KEPT = >$(VENV)/$@.txt; code=$$?; cat $(VENV)/$@.txt; grep -q ' 0 fail, 0 warn,' $(VENV)/$@.txt && exit $$code
conform: $(VENV)/core.stamp
	@$(MAKE) --no-print-directory -j2 conform-agent conform-client conform-agent-2 conform-client-2

conform-agent: $(VENV)/core.stamp
	$(BIN)/accord check agent --quiet --slow 3 --jobs 4 \
	  --need "schema,framing,faults,$$($(BIN)/python -m tests.check.proven_rules agent)" -- $(BIN)/accord agent $(KEPT)

conform-client: $(VENV)/core.stamp
	$(BIN)/accord check client --quiet --slow 3 --jobs 4 \
	  --need "schema,framing,faults,$$($(BIN)/python -m tests.check.proven_rules client)" -- $(BIN)/accord run {prompt} -- {agent} $(KEPT)

# The same in version 2, a draft.
conform-agent-2: $(VENV)/core.stamp
	$(BIN)/accord check agent --protocol 2 --quiet --slow 3 --need "schema,v2-prompt,v2-cancel" -- \
	  $(BIN)/accord agent $(KEPT)

conform-client-2: $(VENV)/core.stamp
	$(BIN)/accord check client --protocol 2 --quiet --slow 3 --need must -- \
	  $(BIN)/accord run --protocol 2 {prompt} -- {agent} $(KEPT)

# The pictures of README.md, docs/chat.md and docs/page.md.
screens: $(VENV)/dev.stamp web
	$(BIN)/python -m tests.cli.demo_recording
	$(BIN)/python -m tests.tui.screenshots
	$(BIN)/python -m tests.web.screenshots

bench: $(VENV)/dev.stamp node
	$(BIN)/python -m benchmarks

# The coding agent beside two others, which get environments of their own.
bench-coder: $(VENV)/dev.stamp
	@test -x .venv-contenders/agentao/bin/python || $(PYTHON) -m venv .venv-contenders/agentao
	@.venv-contenders/agentao/bin/python -m pip install --quiet --disable-pip-version-check agentao==0.5.17
	@mkdir -p .venv-contenders/opencode
	@command -v npm >/dev/null && npm install --prefix .venv-contenders/opencode --silent --no-audit --no-fund opencode-ai@1.18.33 || true
	$(BIN)/python -m benchmarks.coder

# The gateway: forwarding beside copying lines and beside the official TypeScript server, fan-out, a thousand clients.
bench-gateway: $(VENV)/dev.stamp node
	$(BIN)/python -m benchmarks.gateway

# Three NATS servers and three nodes: appends beside the yardsticks of this machine, a thousand clients, takeover.
bench-cluster: $(VENV)/dev.stamp
	$(BIN)/python -m benchmarks.cluster --rounds 3

# The proxy beside a program that copies lines.
bench-proxy: $(VENV)/dev.stamp
	$(BIN)/python -m benchmarks.proxy

# `accord run` beside acpx, which gets a folder of its own.
bench-run: $(VENV)/dev.stamp node
	@mkdir -p .venv-contenders/acpx
	@npm install --prefix .venv-contenders/acpx --silent --no-audit --no-fund acpx@0.19.1
	$(BIN)/python -m benchmarks.run

# The terminal client: its first paint, a long session, keys during a flood, memory; and on a terminal, with
# TOAD=PATH beside Toad in the same run.
bench-tui: $(VENV)/dev.stamp
	TOAD="$(TOAD)" $(BIN)/python -m benchmarks.tui

# Real agents and clients beside Accord, with the scripted model server: writes the tables of docs/interop.md.
interop: $(VENV)/dev.stamp official-examples
	$(BIN)/python -m tests.real_programs

$(VENV)/docs.stamp: pyproject.toml $(VENV)/dev.stamp
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[docs]'
	@touch $@

# The documentation in site/, with its generated pages; a broken link, reference or snippet is an error.
docs: $(VENV)/docs.stamp
	$(BIN)/python -m accord.schema.reference docs/methods.md
	$(BIN)/python -m tools.configuration_reference
	$(BIN)/python -m tools.command_reference
	$(BIN)/python -m tools.api_reference
	$(BIN)/python -m zensical build --strict --clean
	$(BIN)/python -m tools.site_files site
	$(BIN)/python -m tools.site_check site
	$(BIN)/python -m pytest -n auto tests/test_snippets.py tests/test_reference.py

# What is generated from the parsers of all commands: the completion scripts, the man pages and docs/cli.md.
commands: $(VENV)/dev.stamp
	$(BIN)/python -m tools.completion_scripts
	$(BIN)/python -m tools.man_pages
	$(BIN)/python -m tools.command_reference

# Pinned versions with hashes of everything that accord[all] needs, on every platform.
constraints: $(VENV)/core.stamp
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	$(BIN)/uv pip compile pyproject.toml --extra all --universal --python-version 3.11 --generate-hashes \
	  --no-emit-index-url --custom-compile-command "make constraints" --quiet --upgrade \
	  --output-file constraints.txt

clean:
	rm -rf $(VENV) site $(NODE_DIR)/node_modules web/node_modules src/accord/gateway/page
