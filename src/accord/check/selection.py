"""Which rules are wanted: numbers, ranges, names, chapters, levels."""

from collections.abc import Sequence

from msgspec import structs

from accord.check.ledger import Rule
from accord.check.report import Report
from accord.check.verdict import CHAPTERS, SCHEMA, subject_of
from accord.errors import UsageError


def select(rules: Sequence[Rule], only: Sequence[str], skip: Sequence[str]) -> list[Rule]:
    """The rules that `only` names, or all, without those that `skip` names."""
    wanted = _named(rules, only) if only else set(rules)
    unwanted = _named(rules, skip)
    chosen: list[Rule] = [rule for rule in rules if rule in wanted and rule not in unwanted]
    if not chosen:
        raise UsageError("no rule is left to check")
    return chosen


def need(report: Report, rules: Sequence[Rule], words: Sequence[str]) -> Report:
    """The report with a failure for each of the rules that these words name and that were not shown."""
    needed = {str(rule) for rule in _named(rules, words)}
    findings = [
        structs.replace(one, verdict="fail", why=f"needed, and not shown: {one.why}")
        if one.verdict == "not shown" and one.subject.id in needed
        else one
        for one in report.findings
    ]
    return structs.replace(report, findings=findings)


def _named(rules: Sequence[Rule], words: Sequence[str]) -> set[Rule]:
    found: set[Rule] = set()
    for word in (part.strip() for given in words for part in given.split(",")):
        if word:
            found |= _word(rules, word)
    return found


def _word(rules: Sequence[Rule], word: str) -> set[Rule]:
    if word in CHAPTERS:
        return {rule for rule in rules if subject_of(str(rule)).chapter == word}
    if word in ("must", "should"):
        return {rule for rule in rules if rule != SCHEMA and subject_of(str(rule)).level == word.upper()}
    if word in ("stable", "unstable"):
        return {
            rule for rule in rules if rule != SCHEMA and subject_of(str(rule)).stable == (word == "stable")
        }
    named: set[Rule] = {rule for rule in rules if rule == word}
    if named:
        return named
    first, dash, last = word.partition("-")
    if first.isdecimal() and (not dash or last.isdecimal()):
        least, most = int(first), int(last if dash else first)
        known: set[Rule] = {rule for rule in rules if isinstance(rule, int) and least <= rule <= most}
        if known:
            return known
    raise UsageError(
        f"there is no rule {word!r} here; give numbers (15 or 15-20), `schema`, `must`, `should`, or a chapter: "
        f"{', '.join(CHAPTERS)}"
    )
