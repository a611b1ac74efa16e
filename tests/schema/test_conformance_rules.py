"""The conformance rules as data: complete, numbered without gaps, with the totals of the reference."""

import re
from collections import Counter

import pytest

from accord.schema.conformance_rules import BASES, REVISIONS, RULES, RULES_V2, find_rules

WITHDRAWN = {234, 292, 293, 302, 303, 304, 305, 306, 307, 308, 309, 385}


def test_all_394_rules_are_numbered_in_order():
    assert list(RULES) == list(range(1, 395))
    assert all(number == one.id for number, one in RULES.items())


def test_the_totals_match_the_reference():
    in_force = find_rules()
    assert len(in_force) == 382
    assert Counter(one.side for one in in_force) == {"AGENT": 210, "CLIENT": 168, "PROXY": 2, "CONDUCTOR": 2}
    assert Counter(one.level for one in in_force) == {"MUST": 268, "SHOULD": 114}
    assert Counter(one.status for one in in_force) == {"stable": 315, "unstable": 67}
    assert Counter(one.basis for one in in_force) == {
        "D": 162,
        "S": 134,
        "J": 9,
        "R": 18,
        "I": 48,
        "Accord": 11,
    }


def test_every_rule_has_a_slug_of_its_own():
    assert len(RULES.by_slug) == len(RULES)
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*\.[a-z0-9]+(-[a-z0-9]+)*", slug) for slug in RULES.by_slug)
    assert RULES.by_slug["prompt.updates-before-response"].id == 144


def test_withdrawn_rules_keep_their_number_and_are_not_in_force():
    assert {one.id for one in find_rules(status="withdrawn")} == WITHDRAWN
    assert all(RULES[number].level is None and not RULES[number].in_force for number in WITHDRAWN)


def test_every_rule_is_complete():
    for one in RULES.values():
        assert one.text
        assert one.how
        assert one.basis in BASES
        assert one.chapter in RULES.chapters


def test_filters_combine():
    found = find_rules(side="CLIENT", level="MUST", status="stable", chapter="permissions")
    assert [one.id for one in found] == [196, 197, 202]


def test_chapters_are_ordered_and_contiguous():
    seen = list(dict.fromkeys(one.chapter for one in RULES.values()))
    assert seen == list(RULES.chapters)
    assert len(seen) == 18


def test_an_unknown_rule_number_is_a_key_error():
    assert RULES[151].side == "AGENT"
    with pytest.raises(KeyError):
        RULES[395]


def test_the_rules_of_version_2_are_complete_and_name_a_revision():
    assert list(RULES_V2) == list(range(1, 102))
    assert not set(RULES_V2.by_slug) & set(RULES.by_slug)
    for one in RULES_V2.values():
        assert one.slug.startswith("v2-")
        assert one.slug.partition(".")[0] == one.chapter
        assert one.text
        assert one.how
        assert one.revision in REVISIONS
    assert {one.side for one in find_rules(rules=RULES_V2)} == {"AGENT", "CLIENT"}
