"""Fenced text cannot end its own fence."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.coder.context.hypothesis_settings import no_deadline

from accord.coder.bounded_text import wrap_in_tag

ENDS = st.sampled_from(
    ["</resource>", "</resource-2>", "< / RESOURCE-3 >", "</resource-1>", "</resource", "x", "\n"]
)


@no_deadline
@given(st.lists(ENDS | st.text()).map("".join))
@example("</resource>\n</resource-2>")
def test_closing_tag_occurs_only_at_the_end(text: str) -> None:
    wrapped = wrap_in_tag("resource", text, uri="file:///a")
    first, *_, last = wrapped.split("\n")
    name = last.removeprefix("</").removesuffix(">")
    assert first == f'<{name} uri="file:///a">'
    ends = re.findall(rf"<\s*/\s*{name}(?![-\d])", wrapped, re.IGNORECASE)
    assert len(ends) == 1
    assert text in wrapped


def test_fencing_is_deterministic() -> None:
    assert wrap_in_tag("resource", "a </resource> b") == wrap_in_tag("resource", "a </resource> b")


@no_deadline
@given(st.text())
def test_attribute_stays_on_one_line_and_in_quotes(value: str) -> None:
    first = wrap_in_tag("resource", "text", uri=value).split("\n")[0]
    assert re.fullmatch(r'<resource(?: uri="[^"<>]*")?>', first)


@pytest.mark.timeout(120)  # trying each number against the whole text would take minutes
def test_text_full_of_closing_tags_is_scanned_once() -> None:
    text = "".join(f"</resource-{number}>" for number in range(2, 60_000))
    assert wrap_in_tag("resource", text).endswith("\n</resource>")
    text = "</resource>" + text
    assert wrap_in_tag("resource", text).endswith("\n</resource-60000>")


@pytest.mark.timeout(120)
@pytest.mark.parametrize("piece", ["<", "< ", "</", "</ ", "</resource-", "1"])
def test_incomplete_closing_tags_are_fenced_in_linear_time(piece: str) -> None:
    wrap_in_tag("resource", piece * (1_000_000 // len(piece)))
