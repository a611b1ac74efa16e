"""Passes: which folders are within which."""

from pathlib import Path

import pytest

from accord.gateway.access.passes import Pass


@pytest.mark.parametrize(
    ("own", "bounds", "left"),
    [
        (None, None, None),
        (None, ("/a",), ("/a",)),
        (("/a",), None, ("/a",)),
        (("/a/b",), ("/a",), ("/a/b",)),
        (("/a",), ("/a/b", "/c"), ("/a/b",)),
        (("/a",), ("/a",), ("/a",)),
        (("/a",), ("/b",), ()),
        (("/a",), ("/ab",), ()),
        (("/a/b", "/c"), ("/a", "/c/d"), ("/a/b", "/c/d")),
    ],
)
def test_two_bounds_leave_what_lies_in_both(own, bounds, left) -> None:
    assert Pass("t", folders=own).within(bounds).folders == left


def test_no_folder_at_all_is_not_every_folder() -> None:
    nowhere = Pass("t", folders=("/a",)).within(("/b",))
    assert not nowhere.may_enter("/a")
    assert not nowhere.may_enter("/")


def test_a_link_out_of_a_folder_leads_out_of_it(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "out").symlink_to(tmp_path)
    visa = Pass("t", folders=(str(tmp_path / "in"),))
    assert visa.may_enter(str(tmp_path / "in" / "new"))
    assert not visa.may_enter(str(tmp_path / "in" / "out"))
    assert not visa.may_enter(str(tmp_path / "in" / ".."))
    assert not visa.may_enter(str(tmp_path / "in2"))
    assert not visa.may_enter("in")
    assert not visa.may_enter(str(tmp_path / "in") + "/a\0b")
