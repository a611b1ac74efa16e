"""Text of others cannot end the fence it stands in."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.coder.context.patience import patient

from accord.coder.context.fence import fenced

ENDS = st.sampled_from(
    ["</resource>", "</resource-2>", "< / RESOURCE-3 >", "</resource-1>", "</resource", "x", "\n"]
)


@patient
@given(st.lists(ENDS | st.text()).map("".join))
@example("</resource>\n</resource-2>")
def test_the_end_of_a_fence_stands_at_its_end_only(text: str) -> None:
    whole = fenced("resource", text, uri="file:///a")
    first, *_, last = whole.split("\n")
    name = last.removeprefix("</").removesuffix(">")
    assert first == f'<{name} uri="file:///a">'
    ends = re.findall(rf"<\s*/\s*{name}(?![-\d])", whole, re.IGNORECASE)
    assert len(ends) == 1
    assert text in whole


def test_the_same_text_is_fenced_the_same_way() -> None:
    assert fenced("resource", "a </resource> b") == fenced("resource", "a </resource> b")


@patient
@given(st.text())
def test_an_attribute_stays_on_its_line_and_in_its_quotes(value: str) -> None:
    first = fenced("resource", "text", uri=value).split("\n")[0]
    assert re.fullmatch(r'<resource(?: uri="[^"<>]*")?>', first)


@pytest.mark.timeout(20)  # trying one number after the other against the whole text would take minutes
def test_a_text_full_of_ends_costs_one_look_at_it() -> None:
    text = "".join(f"</resource-{number}>" for number in range(2, 60_000))
    assert fenced("resource", text).endswith("\n</resource>")
    text = "</resource>" + text
    assert fenced("resource", text).endswith("\n</resource-60000>")


@pytest.mark.timeout(20)
@pytest.mark.parametrize("piece", ["<", "< ", "</", "</ ", "</resource-", "1"])
def test_a_megabyte_of_half_an_end_is_fenced_in_linear_time(piece: str) -> None:
    fenced("resource", piece * (1_000_000 // len(piece)))
