"""Patterns over paths, for rules and searches."""

import pytest

from accord.glob_pattern import PathGlob


@pytest.mark.parametrize(
    ("pattern", "path", "whole", "with_content"),
    [
        ("a", "a", True, True),
        ("a", "a/b", False, True),
        ("a/*", "a/b/c", False, True),
        ("a/**", "a", False, False),
        ("/a/", "/a", True, True),
        ("", "a", False, True),
        ("a**b", "a1/2/3b", True, True),
        ("a**b", "a/b/c", False, True),
        ("a**b", "a/c", False, False),
        ("a**/b", "a1/2/b", True, True),
        ("a**/b", "ab", False, False),
        ("**.py", "x/y.py", True, True),
        ("\\**", "*a", True, True),
        ("\\**", "a", False, False),
        ("\\[a]", "[a]", True, True),
    ],
)
def test_a_path_matches(pattern: str, path: str, whole: bool, with_content: bool) -> None:
    glob = PathGlob(pattern)
    assert (glob.matches(path), glob.matches(path, with_content=True)) == (whole, with_content)


def test_case_can_be_ignored() -> None:
    assert not PathGlob("Src/*.PY").matches("src/a.py")
    assert PathGlob("Src/*.PY", ignore_case=True).matches("src/a.py")


@pytest.mark.parametrize("pattern", ["**/a/" * 100 + "b", "*a" * 100 + "b", "a**" * 100 + "b"])
def test_patterns_match_in_bounded_time(pattern: str) -> None:
    assert not PathGlob(pattern).matches("a/" * 400 + "c", with_content=True)
