"""Access tokens: private hashed files shared by all processes, their rights, and pairing links."""

import re
import resource
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import segno
from tests.patience import PATIENCE

from accord.errors import UsageError
from accord.gateway.access.access_tokens import (
    TOKEN_PATTERN,
    TokenRights,
    TokenStore,
    create_file,
    pairing_link,
    qr_code,
)


class WallClock:
    """A wall clock set by the test."""

    def __init__(self) -> None:
        self.time = 1_800_000_000.0

    def __call__(self) -> float:
        return self.time


def test_a_token_is_found_and_its_secret_is_not_stored(tmp_path: Path) -> None:
    tokens = TokenStore(tmp_path / "tokens")
    made, text = tokens.new("phone")
    assert TOKEN_PATTERN.fullmatch(text)
    assert tokens.find(text) == made == TokenStore(tokens.folder).find(text)
    secret = text.rpartition(made.id + "_")[2]
    assert all(secret not in file.read_text() for file in tokens.folder.iterdir())


def test_a_token_file_that_cannot_be_written_is_not_left_behind(tmp_path: Path) -> None:
    """A part of a file would be a token that does not work and cannot be listed."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            create_file(tmp_path / "a", b"x" * 100, 0.0)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert list(tmp_path.iterdir()) == []
    create_file(tmp_path / "a", b"x" * 100, 0.0)
    with pytest.raises(FileExistsError):
        create_file(tmp_path / "a", b"y", 0.0)
    assert (tmp_path / "a").read_bytes() == b"x" * 100


def test_token_files_are_private(tmp_path: Path) -> None:
    tokens = TokenStore(tmp_path / "a" / "tokens")
    tokens.new()
    assert stat.S_IMODE(tokens.folder.stat().st_mode) == 0o700
    assert [stat.S_IMODE(file.stat().st_mode) for file in tokens.folder.iterdir()] == [0o600]


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text[:-1],
        lambda text: text + "A",
        lambda text: text[:-1] + ("A" if text[-1] != "A" else "B"),
        lambda text: text.upper(),
        lambda text: " " + text,
        lambda text: text + "\n",
        lambda text: text[4:],
        lambda text: text.replace("acc_", "acc_../"),
        lambda _: "",
        lambda _: "acc_",
        lambda _: "acc_\0\udc80",
        lambda _: "acc_" + "a" * 8 + "_" + "b" * 43,
        lambda _: "ä" * 100_000,
    ],
)
def test_anything_but_the_exact_token_is_not_found(tmp_path: Path, change) -> None:
    tokens = TokenStore(tmp_path)
    _, text = tokens.new()
    assert tokens.find(change(text)) is None


def test_the_secret_of_one_token_does_not_fit_another(tmp_path: Path) -> None:
    tokens = TokenStore(tmp_path)
    one, first = tokens.new()
    other, second = tokens.new()
    assert tokens.find(first.replace(one.id, other.id)) is None
    assert tokens.find(second) == other


def test_a_token_expires(tmp_path: Path) -> None:
    now = WallClock()
    tokens = TokenStore(tmp_path, now)
    made, text = tokens.new(expires=now.time + 60)
    assert tokens.find(text) == made
    now.time += 60
    assert tokens.find(text) is None
    assert not tokens.is_valid(made.id)
    assert tokens.all() == [made]


def test_revoking_is_seen_by_another_instance(tmp_path: Path) -> None:
    gateway = TokenStore(tmp_path)
    made, text = gateway.new()
    assert gateway.find(text) == made
    TokenStore(tmp_path).revoke(made.id)
    assert gateway.find(text) is None
    with pytest.raises(UsageError, match="token list"):
        gateway.revoke(made.id)


def test_use_is_recorded_and_does_not_restore_a_revoked_token(tmp_path: Path) -> None:
    now = WallClock()
    tokens = TokenStore(tmp_path, now)
    made, text = tokens.new()
    assert tokens.last_used(made) is None
    now.time += 5
    tokens.mark_used(made)
    assert tokens.last_used(made) == now.time
    tokens.revoke(made.id)
    now.time += 3600
    tokens.mark_used(made)
    assert tokens.find(text) is None
    assert tokens.all() == []


def test_folders_are_stored_as_real_paths(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    made, _ = TokenStore(tmp_path / "tokens").new(folders=[str(tmp_path / "link")], agents=["a", "a"])
    rights = made.rights("127.0.0.1")
    assert rights.folders == (str(tmp_path / "real"),)
    assert rights.may_enter(str(tmp_path / "link"))
    assert not rights.may_enter(str(tmp_path))
    assert rights.may_use("a")
    assert not rights.may_use("b")


def test_a_corrupt_file_is_ignored(tmp_path: Path) -> None:
    tokens = TokenStore(tmp_path)
    made, _ = tokens.new()
    (tmp_path / "aaaaaaaa.json").write_bytes(b"\xff{")
    (tmp_path / "bbbbbbbb.json").write_bytes((tmp_path / f"{made.id}.json").read_bytes())
    assert tokens.all() == [made]


_WORK = """
import sys
from pathlib import Path
from accord.gateway.access.access_tokens import TokenStore
tokens = TokenStore(Path(sys.argv[1]))
made = [tokens.new(sys.argv[2])[0] for _ in range(40)]
for token in made[::2]:
    tokens.revoke(token.id)
"""


def test_several_processes_create_and_revoke_tokens(tmp_path: Path) -> None:
    running = [subprocess.Popen([sys.executable, "-c", _WORK, str(tmp_path), str(n)]) for n in range(4)]
    assert [process.wait(PATIENCE) for process in running] == [0] * 4
    left = TokenStore(tmp_path).all()
    assert sorted(token.name for token in left) == sorted(str(n) for n in range(4) for _ in range(20))
    assert len(list(tmp_path.iterdir())) == 80


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
def test_two_folder_limits_leave_their_intersection(own, bounds, left) -> None:
    assert TokenRights("t", folders=own).restricted_to(bounds).folders == left


def test_an_empty_folder_list_allows_no_folder() -> None:
    nowhere = TokenRights("t", folders=("/a",)).restricted_to(("/b",))
    assert not nowhere.may_enter("/a")
    assert not nowhere.may_enter("/")


def test_a_symlink_out_of_a_folder_is_not_allowed(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "out").symlink_to(tmp_path)
    rights = TokenRights("t", folders=(str(tmp_path / "in"),))
    assert rights.may_enter(str(tmp_path / "in" / "new"))
    assert not rights.may_enter(str(tmp_path / "in" / "out"))
    assert not rights.may_enter(str(tmp_path / "in" / ".."))
    assert not rights.may_enter(str(tmp_path / "in2"))
    assert not rights.may_enter("in")
    assert not rights.may_enter(str(tmp_path / "in") + "/a\0b")


LINK = "http://127.0.0.1:8765/#token=acc_k3v9m2qd_" + "aB3_-" * 8 + "abc"


def test_a_link_has_the_token_in_its_fragment() -> None:
    assert pairing_link("https://home.example/", "acc_x") == pairing_link("https://home.example", "acc_x")
    assert pairing_link("https://home.example", "acc_x") == "https://home.example/#token=acc_x"


def test_the_terminal_shows_the_qr_code() -> None:
    lines = qr_code(LINK, 80)
    assert lines is not None
    shown = [re.fullmatch("\x1b\\[38;5;16;48;5;231m(.*)\x1b\\[0m", line) for line in lines]
    rows: list[list[bool]] = []
    for line in shown:
        assert line is not None, "each line sets its own colors"
        rows.append([char in "▀█" for char in line[1]])
        rows.append([char in "▄█" for char in line[1]])
    code = segno.make(LINK, error="l", micro=False)
    expected = [[bool(dark) for dark in row] for row in code.matrix_iter(scale=1, border=2)]
    assert rows[: len(expected)] == expected
    assert not any(any(row) for row in rows[len(expected) :])


def test_there_is_no_qr_code_if_it_does_not_fit() -> None:
    lines = qr_code(LINK, 80)
    assert lines is not None
    width = len(lines[0].split("m", 1)[1].split("\x1b")[0])
    assert qr_code(LINK, width) is not None
    assert qr_code(LINK, width - 1) is None
