"""The report of proven rules: what counts, and that an unknown rule in a mark stops the run."""

import pytest
from tests.rule_coverage import CORE_CHAPTERS, client_rules, core_rules, numbers

from accord.schema.conformance_rules import RULES


class Marked:
    """The part of a collected test that the report reads."""

    nodeid = "tests/test_x.py::test_x"

    def __init__(self, *marks: pytest.MarkDecorator) -> None:
        self._marks = [mark.mark for mark in marks]

    def iter_markers(self, name: str) -> list[pytest.Mark]:
        return [mark for mark in self._marks if mark.name == name]


def test_the_core_rules_are_the_stable_must_rules_of_the_core_chapters():
    assert set(CORE_CHAPTERS) <= set(RULES.chapters)
    assert {1, 9, 62, 139, 161, 200, 245, 256, 280} <= core_rules()
    assert not {17, 76, 203, 281, 383} & core_rules()


def test_the_client_rules_are_all_stable_rules_of_a_client():
    assert {2, 18, 79, 150, 192, 245, 315, 393} <= client_rules()
    assert not {1, 282, 302, 371} & client_rules()


def test_numbers_are_collected_from_the_marks():
    by_slug = pytest.mark.rule("framing.agent-returns-id", "framing.client-returns-id")
    items = [Marked(by_slug), Marked(pytest.mark.dialect(7), pytest.mark.rule(11))]
    assert numbers(items, "rule", RULES) == {9, 10, 11}  # type: ignore[arg-type]
    assert numbers(items, "dialect", [7]) == {7}  # type: ignore[arg-type]


UNKNOWN_RULE = max(RULES) + 1


@pytest.mark.parametrize(
    "mark",
    [pytest.mark.rule("framing.agent-returns-id", UNKNOWN_RULE), pytest.mark.rule("9"), pytest.mark.rule()],
)
def test_an_unknown_number_is_an_error(mark: pytest.MarkDecorator):
    with pytest.raises(pytest.UsageError, match="no such number"):
        numbers([Marked(mark)], "rule", RULES)  # type: ignore[list-item]
