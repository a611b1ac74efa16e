"""`accord tour`: all steps with and without a user, and nothing left behind."""

import os
import re
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from tests.cli.terminal import in_terminal
from tests.patience import PATIENCE

from accord import extras
from accord.cli import tour_command


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Return an environment whose temporary folder and home are empty folders."""
    for name in ("temporary", "home"):
        (tmp_path / name).mkdir()
    return {
        **os.environ,
        "TMPDIR": str(tmp_path / "temporary"),
        "ACCORD_HOME": str(tmp_path / "home"),
        "COLUMNS": "120",
    }


def left_behind(tmp_path: Path) -> list[Path]:
    return [path for name in ("temporary", "home") for path in (tmp_path / name).iterdir()]


def test_the_tour_runs_without_a_user(environment: dict[str, str], tmp_path: Path) -> None:
    tour = subprocess.run(
        [sys.executable, "-m", "accord", "tour"],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (tour.returncode, tour.stderr) == (0, "")
    expected = [
        "☐ fix the greeting",
        '+    return f"Hello',
        "$ accord run --continue",
        "1 file restored: `greeting.py`",
        "run: accord serve token new",
        "Next:",
    ]
    places = [tour.stdout.find(text) for text in expected]
    assert -1 not in places, tour.stdout
    assert places == sorted(places)
    assert left_behind(tmp_path) == []


def test_without_the_gateway_the_tour_says_what_to_type(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(extras.EXTRAS, "gateway", ("a_module_that_is_missing",))
    monkeypatch.setattr(tour_command, "_STEPS", ())
    assert tour_command.main(["--yes"]) == 0
    shown = capsys.readouterr().out
    clone = Path(extras.__file__).resolve().parents[2]
    assert f"\n  {sys.executable} -m pip install -e '{clone}[gateway]'\n  accord serve\n" in shown
    assert shown.index("The page") < shown.index("pip install") < shown.index("Next:")
    assert "Enter runs" not in shown


def test_the_link_of_the_page_logs_in(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The second Enter is pressed after a login with the link."""
    statuses: list[int] = []

    class User:
        def readline(self) -> str:
            if link := re.search(r"(http://\S+)/#token=(\S+)", capsys.readouterr().out):
                request = urllib.request.Request(
                    f"{link[1]}/api/login", b"", {"Authorization": f"Bearer {link[2]}", "Origin": link[1]}
                )
                with urllib.request.urlopen(request, timeout=PATIENCE) as response:
                    statuses.append(response.status)
            return "\n"

    monkeypatch.setattr(tour_command, "_STEPS", ())
    monkeypatch.setattr(tour_command, "is_terminal", lambda _: True)
    monkeypatch.setattr(sys, "stdin", User())
    assert tour_command.main([]) == 0
    assert statuses == [204]


def test_the_user_declines_the_edit_and_stops_the_tour(environment: dict[str, str], tmp_path: Path) -> None:
    with in_terminal("tour", env=environment) as terminal:
        for _ in range(2):
            terminal.expect("Enter runs the command")
            terminal.type("\n")
        terminal.expect('+    return f"Hello')
        terminal.expect("Choose 1-")
        terminal.type("3\n")
        terminal.expect("greeting.py is unchanged")
        terminal.expect("Enter runs the command")
        terminal.type("\x03")
        terminal.expect("The tour has ended early.")
        assert terminal.end() == 130
    assert left_behind(tmp_path) == []
