"""Which rules and dialect rows have a test, read from the marks of the collected tests and printed after a
full run.

A mark names rules by slug or number; an unknown one is an error. A full run fails while a core rule or a
stable client rule has no test.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from accord.schema.conformance_rules import RULES, find_rules
from accord.schema.dialects import DIALECTS

CORE_CHAPTERS = (
    "framing",
    "extensibility",
    "cancellation",
    "initialization",
    "session-setup",
    "prompt-turn",
    "turn-cancellation",
    "tool-calls",
    "permissions",
    "file-system",
    "terminals",
    "elicitation",
)


def core_rules() -> set[int]:
    """The stable MUST rules of the chapters that every run has to prove."""
    return {
        rule.id
        for chapter in CORE_CHAPTERS
        for rule in find_rules(level="MUST", status="stable", chapter=chapter)
    }


def client_rules() -> set[int]:
    """The stable rules of a client, including SHOULD rules."""
    return {rule.id for rule in find_rules(side="CLIENT", status="stable")}


def numbers(items: Iterable[pytest.Item], mark: str, known: Iterable[int]) -> set[int]:
    """All numbers that a mark carries on these tests; a rule may also be named by its slug."""
    found: set[int] = set()
    valid = set(known)
    for item in items:
        for one in item.iter_markers(mark):
            named: list[Any] = [_rule_number(name) if mark == "rule" else name for name in one.args]
            unknown = [number for number in named if type(number) is not int or number not in valid]
            if unknown or not named:
                raise pytest.UsageError(f"{item.nodeid}: no such number in @pytest.mark.{mark}{one.args}")
            found.update(named)
    return found


def _rule_number(name: Any) -> Any:
    rule = RULES.by_slug.get(name) if isinstance(name, str) else None
    return name if rule is None else rule.id


class RuleCoverage:
    """The plugin that collects the marks and reports them. Parallel test processes send theirs to the first
    one.
    """

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self._worker: dict[str, Any] | None = getattr(config, "workeroutput", None)
        self.whole = self._worker is None and _is_full_run(config)
        self.proven: set[int] = set()
        self.rows: set[int] = set()

    @property
    def missing(self) -> list[int]:
        """The core rules and client rules without a test."""
        return sorted((core_rules() | client_rules()) - self.proven)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        in_force = [rule.id for rule in RULES.values() if rule.in_force]
        self.proven = numbers(items, "rule", in_force)
        self.rows = numbers(items, "dialect", DIALECTS)

    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        self.whole = self.whole and not items

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        told: dict[str, Any] = getattr(node, "workeroutput", {})
        self.proven.update(told.get("rules", ()))
        self.rows.update(told.get("dialect rows", ()))

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self._worker is not None:
            self._worker |= {"rules": sorted(self.proven), "dialect rows": sorted(self.rows)}
        if self.whole and self.missing and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.whole:
            terminalreporter.section("protocol rules")
            terminalreporter.write_line(self.report())

    def report(self) -> str:
        """One paragraph: how much of the protocol the collected tests prove."""
        core, client = core_rules(), client_rules()
        in_force = len(find_rules())
        messages = {row.id for row in DIALECTS.values() if row.handled != "behaviour"}
        lines = [
            f"{len(self.proven)} of {in_force} rules in force have a test; "
            f"{len(core & self.proven)} of {len(core)} stable MUST rules of the core chapters; "
            f"{len(client & self.proven)} of {len(client)} stable rules of a client; "
            f"{len(messages & self.rows)} of {len(messages)} dialect rows that repair messages."
        ]
        if self.missing:
            lines.append(f"Rules without a test: {', '.join(RULES[number].slug for number in self.missing)}.")
        if unproven := sorted(messages - self.rows):
            lines.append(f"Dialect rows without a test: {', '.join(map(str, unproven))}.")
        return "\n".join(lines)


def _is_full_run(config: pytest.Config) -> bool:
    """Whether this run covers the whole tests folder, without a filter."""
    everything = {config.rootpath, Path(__file__).parent}
    folders = {(config.invocation_params.dir / arg).resolve() for arg in config.args}
    filters = ("keyword", "markexpr", "lf", "ignore", "ignore_glob", "deselect", "stepwise")
    return bool(folders & everything) and not any(config.getoption(name, None) for name in filters)
