"""The conformance rules of ACP as data: which side must do what, why, and how it shows on the wire.

The rules are the lines of `rules.tsv` and `rules_v2.tsv`, read on first use. Numbers and slugs never change:
an obsolete rule is marked as withdrawn, new rules are appended.
"""

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Final, Literal, NamedTuple, cast

RuleSide = Literal["AGENT", "CLIENT", "PROXY", "CONDUCTOR"]
Level = Literal["MUST", "SHOULD"]
Status = Literal["stable", "unstable", "withdrawn"]
Basis = Literal["D", "S", "J", "R", "I", "Accord"]

BASES: Final[Mapping[Basis, str]] = {
    "D": "the prose of the documentation",
    "S": "the JSON schema, its descriptions included",
    "J": "JSON-RPC 2.0",
    "R": "an RFD: binding once the feature is implemented",
    "I": "inferred good behaviour: advisory, unless breaking it is unsafe or deadlocks (then it is a MUST)",
    "Accord": "a choice of this project where the protocol is open: binds only Accord's own programs",
}


REVISIONS: Final[Mapping[str, str]] = {
    "alpha.3": "the draft schema-v2.0.0-alpha.3 of August 2026",
    "alpha.5": "the draft schema-v2.0.0-alpha.5 of September 2026",
    "2.4.0": "the draft in the TypeScript SDK 2.4.0 of November 2026",
}
"""The revisions of the draft of version 2: the first one that has a rule is named with it."""


class ConformanceRule(NamedTuple):
    """One rule. `level` is None for a withdrawn rule. `how` says how to check it on the wire."""

    id: int
    slug: str
    """Its name in code, tests and reports, such as `prompt.updates-before-response`."""
    chapter: str
    side: RuleSide
    level: Level | None
    status: Status
    basis: Basis
    text: str
    how: str
    revision: str = ""
    """The first revision of the draft that has it; empty in version 1."""

    @property
    def in_force(self) -> bool:
        """Whether the rule is still in force."""
        return self.status != "withdrawn"


class ConformanceRules(Mapping[int, ConformanceRule]):
    """All rules of a version by number, in order, withdrawn ones included."""

    def __init__(self, file: str) -> None:
        self._file = file

    @cached_property
    def _loaded(self) -> tuple[dict[int, ConformanceRule], dict[str, str]]:
        from importlib.resources import files

        by_id: dict[int, ConformanceRule] = {}
        chapters: dict[str, str] = {}
        chapter = ""
        for line in files("accord.schema").joinpath(self._file).read_text("utf-8").splitlines():
            if line.startswith("## "):
                chapter, title = line[3:].split("\t")
                chapters[chapter] = title
            elif not line.startswith("#"):
                rule = _parse(line, chapter)
                by_id[rule.id] = rule
        return by_id, chapters

    @property
    def chapters(self) -> Mapping[str, str]:
        """The chapters in order: key to title."""
        return self._loaded[1]

    @cached_property
    def by_slug(self) -> Mapping[str, ConformanceRule]:
        """All rules by slug, in order."""
        return {rule.slug: rule for rule in self._loaded[0].values()}

    def __getitem__(self, number: int) -> ConformanceRule:
        return self._loaded[0][number]

    def __iter__(self) -> Iterator[int]:
        return iter(self._loaded[0])

    def __len__(self) -> int:
        return len(self._loaded[0])


def _parse(line: str, chapter: str) -> ConformanceRule:
    number, slug, side, level, status, basis, text, how, *revision = line.split("\t")
    return ConformanceRule(
        int(number),
        slug,
        chapter,
        cast(RuleSide, side),
        None if level == "-" else cast(Level, level),
        cast(Status, status),
        cast(Basis, basis),
        text,
        how,
        *revision,
    )


RULES: Final = ConformanceRules("rules.tsv")
RULES_V2: Final = ConformanceRules("rules_v2.tsv")
"""The rules of the draft of version 2; their slugs start with `v2-`."""


def find_rules(
    *,
    side: RuleSide | None = None,
    level: Level | None = None,
    status: Status | None = None,
    chapter: str | None = None,
    rules: ConformanceRules = RULES,
) -> list[ConformanceRule]:
    """Return the rules that match all filters. Withdrawn rules only with `status="withdrawn"`."""
    return [
        item
        for item in rules.values()
        if (item.status == status if status else item.in_force)
        and (side is None or item.side == side)
        and (level is None or item.level == level)
        and (chapter is None or item.chapter == chapter)
    ]
