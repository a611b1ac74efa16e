"""Session titles from first prompts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.coder.context.hypothesis_settings import no_deadline

from accord.coder.context.user_prompt import TITLE_LIMIT, title_of
from accord.schema.content import (
    AudioContent,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)


def title(text: str) -> str | None:
    return title_of([TextContent(text)], commands=("compact", "init"))


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("Fix the login bug", "Fix the login bug"),
        ("Fix the login bug. It fails since Monday.", "Fix the login bug"),
        ("Why does it crash?\nHere is the log:", "Why does it crash?"),
        ("Use a cache, e.g. Redis, for the sessions.", "Use a cache, e.g. Redis, for the sessions"),
        ("Look at v1.2.3 of the parser", "Look at v1.2.3 of the parser"),
        ("\n\n  # Add **dark** mode\n\nDetails follow.", "Add dark mode"),
        ("> - [ ] *Rename* `foo_bar` to _baz_", "Rename foo_bar to baz"),
        ("Read [the docs](https://example.com/a/b) first", "Read the docs first"),
        ("```python\nprint(1)\n```\nWhat does this do?", "What does this do?"),
        ("```\nprint(1)\n```", "print(1)"),
        ("Refactor /home/me/projects/shop/src/cart/total.py", "Refactor …/cart/total.py"),
        ("See https://github.com/someone/something/issues/42?x=1#y", "See …/issues/42"),
        ("/home/me is full, why?", "/home/me is full, why?"),
        ("/unknown command", "/unknown command"),
        ("/init with tests", "with tests"),
        ("/compact", None),
        ("  /compact  ", None),
        ("修复登录错误。然后运行测试。", "修复登录错误"),
        ("a\u202eb\x1b[31m\x00c", "ab[31mc"),
        ("tabs\tand\u00a0blanks", "tabs and blanks"),
        ("", None),
        ("!!! ???", None),
    ],
)
def test_title_is_the_first_sentence_of_the_prompt(prompt: str, expected: str | None) -> None:
    assert title(prompt) == expected


def test_long_title_is_cut_between_words() -> None:
    found = title("Please " + "rewrite the parser " * 20)
    assert found is not None
    assert found.endswith("the parser rewrite the…")
    assert len(found) <= TITLE_LIMIT


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        (ResourceLink("app.py", "file:///p/app.py"), "app.py"),
        (ResourceLink("", "file:///p/my%20app.py"), "my app.py"),
        (EmbeddedResource(TextResourceContents("file:///p/src/b.py", "x")), "b.py"),
        (ImageContent("", "image/png"), "Image"),
        (AudioContent("", "audio/wav"), "Audio"),
    ],
)
def test_prompt_without_text_is_titled_after_its_attachment(block: ContentBlock, expected: str) -> None:
    assert title_of([block]) == expected
    assert title_of([TextContent(" "), block, TextContent("")]) == expected


@no_deadline
@given(st.lists(st.text().map(TextContent) | st.builds(ResourceLink, st.text(), st.text())))
def test_any_prompt_has_a_printable_title_or_none(blocks: list[ContentBlock]) -> None:
    found = title_of(blocks)
    assert found is None or (0 < len(found) <= TITLE_LIMIT and found.isprintable() and found == found.strip())


@pytest.mark.timeout(120)
@pytest.mark.parametrize("piece", ["a", "[", "*", "](", "/", "_", "# ", "- ", "a. "])
def test_title_of_a_huge_prompt_takes_little_time(piece: str) -> None:
    title(piece * (1_000_000 // len(piece)))
