"""Glob patterns over paths."""

import re
from fnmatch import fnmatchcase

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accord.coder.files.file_search import BadPattern, GlobPattern


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("*.py", ["a.py", "src/a.py", ".hidden.py"], ["a.pyc", "a.py/b"]),
        ("./*.py", ["a.py"], ["src/a.py"]),
        ("/*.py", ["a.py"], ["src/a.py"]),
        ("src/*.py", ["src/a.py"], ["a.py", "src/b/a.py", "x/src/a.py"]),
        ("src/**/*.py", ["src/a.py", "src/b/c/a.py"], ["a.py", "x/src/a.py"]),
        ("**/test_*.py", ["test_a.py", "a/b/test_a.py"], ["a_test_a.py"]),
        ("src/**", ["src/a", "src/b/c"], ["src", "a"]),
        ("src/", ["src/a", "src/b/c"], ["src"]),
        ("**", ["a", "a/b"], []),
        ("a/**/b/**/c", ["a/b/c", "a/x/b/y/z/c"], ["a/c", "a/b"]),
        ("*.{ts,tsx}", ["a.ts", "b/a.tsx"], ["a.t"]),
        ("{a,b/{c,d}}.md", ["a.md", "x/a.md", "b/c.md", "b/d.md"], ["x/b/c.md"]),
        ("[ab]?.txt", ["a1.txt", "x/b2.txt"], ["c1.txt", "a.txt"]),
        ("[!a].txt", ["b.txt"], ["a.txt"]),
        ("README", ["README", "docs/README"], ["README.md"]),
        ("a//./b", ["a/b"], ["a/./b"]),
        ("a*b", ["a\nb", "a b"], ["a/b"]),
    ],
)
def test_pattern_matches(pattern: str, yes: list[str], no: list[str]) -> None:
    compiled = GlobPattern(pattern)
    assert [path for path in yes if not compiled.matches(path)] == []
    assert [path for path in no if compiled.matches(path)] == []


@pytest.mark.parametrize("pattern", ["", " ", "/", "./", ".", "{a,b}" * 20])
def test_invalid_patterns_are_refused(pattern: str) -> None:
    with pytest.raises(BadPattern):
        GlobPattern(pattern)


def test_patterns_match_in_bounded_time() -> None:
    assert not GlobPattern("*a" * 100 + "b").matches("a" * 250)
    assert not GlobPattern("**/a/" * 100 + "b").matches("a/" * 400 + "c")


@settings(deadline=None)
@given(
    st.text(st.sampled_from("ab*?[]!-.{},"), min_size=1, max_size=8),
    st.text(st.sampled_from("ab.-"), min_size=1, max_size=6),
)
def test_names_match_like_fnmatch(pattern: str, name: str) -> None:
    if re.search(r"[{}]", pattern) or not pattern.strip("."):
        return
    if pattern == "**":
        assert GlobPattern(pattern).matches(name)
    else:
        assert GlobPattern(pattern).matches(name) == fnmatchcase(name, pattern)


@settings(deadline=None)
@given(
    st.text(st.sampled_from("ab/*?{},."), max_size=12),
    st.text(st.sampled_from("ab/."), min_size=1, max_size=12),
)
def test_any_pattern_is_refused_or_matches_without_an_error(pattern: str, path: str) -> None:
    try:
        compiled = GlobPattern(pattern)
    except BadPattern:
        return
    assert compiled.matches(path) in (True, False)
