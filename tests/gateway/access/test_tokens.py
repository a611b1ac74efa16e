"""Tokens: kept as hashes, for the owner alone, and the same for every process."""

import stat
import subprocess
import sys
from pathlib import Path

import pytest

from accord.errors import UsageError
from accord.gateway.access.tokens import TOKEN, Tokens


class Now:
    """A wall clock that a test sets."""

    def __init__(self) -> None:
        self.time = 1_800_000_000.0

    def __call__(self) -> float:
        return self.time


def test_a_token_is_found_again_and_its_secret_is_nowhere(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path / "tokens")
    made, text = tokens.new("phone")
    assert TOKEN.fullmatch(text)
    assert tokens.find(text) == made == Tokens(tokens.folder).find(text)
    secret = text.rpartition(made.id + "_")[2]
    assert all(secret not in file.read_text() for file in tokens.folder.iterdir())


def test_files_are_for_the_owner_alone(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path / "a" / "tokens")
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
def test_what_is_not_exactly_the_token_is_none(tmp_path: Path, change) -> None:
    tokens = Tokens(tmp_path)
    _, text = tokens.new()
    assert tokens.find(change(text)) is None


def test_the_secret_of_one_does_not_open_another(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path)
    one, first = tokens.new()
    other, second = tokens.new()
    assert tokens.find(first.replace(one.id, other.id)) is None
    assert tokens.find(second) == other


def test_a_token_ends_at_its_time(tmp_path: Path) -> None:
    now = Now()
    tokens = Tokens(tmp_path, now)
    made, text = tokens.new(expires=now.time + 60)
    assert tokens.find(text) == made
    now.time += 60
    assert tokens.find(text) is None
    assert not tokens.is_valid(made.id)
    assert tokens.all() == [made]


def test_revoking_is_seen_by_who_knew_the_token(tmp_path: Path) -> None:
    gateway = Tokens(tmp_path)
    made, text = gateway.new()
    assert gateway.find(text) == made
    Tokens(tmp_path).revoke(made.id)
    assert gateway.find(text) is None
    with pytest.raises(UsageError, match="token list"):
        gateway.revoke(made.id)


def test_use_is_noted_and_never_brings_a_revoked_token_back(tmp_path: Path) -> None:
    now = Now()
    tokens = Tokens(tmp_path, now)
    made, text = tokens.new()
    assert tokens.last_used(made) is None
    now.time += 5
    tokens.used(made)
    assert tokens.last_used(made) == now.time
    tokens.revoke(made.id)
    now.time += 3600
    tokens.used(made)
    assert tokens.find(text) is None
    assert tokens.all() == []


def test_folders_are_kept_as_real_paths(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    made, _ = Tokens(tmp_path / "tokens").new(folders=[str(tmp_path / "link")], agents=["a", "a"])
    visa = made.visa("127.0.0.1")
    assert visa.folders == (str(tmp_path / "real"),)
    assert visa.may_enter(str(tmp_path / "link"))
    assert not visa.may_enter(str(tmp_path))
    assert visa.may_use("a")
    assert not visa.may_use("b")


def test_a_spoiled_file_is_no_token_and_hides_no_other(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path)
    made, _ = tokens.new()
    (tmp_path / "aaaaaaaa.json").write_bytes(b"\xff{")
    (tmp_path / "bbbbbbbb.json").write_bytes((tmp_path / f"{made.id}.json").read_bytes())
    assert tokens.all() == [made]


_WORK = """
import sys
from pathlib import Path
from accord.gateway.access.tokens import Tokens
tokens = Tokens(Path(sys.argv[1]))
made = [tokens.new(sys.argv[2])[0] for _ in range(40)]
for token in made[::2]:
    tokens.revoke(token.id)
"""


def test_processes_make_and_revoke_at_once(tmp_path: Path) -> None:
    running = [subprocess.Popen([sys.executable, "-c", _WORK, str(tmp_path), str(n)]) for n in range(4)]
    assert [process.wait(60) for process in running] == [0] * 4
    left = Tokens(tmp_path).all()
    assert sorted(token.name for token in left) == sorted(str(n) for n in range(4) for _ in range(20))
    assert len(list(tmp_path.iterdir())) == 80
