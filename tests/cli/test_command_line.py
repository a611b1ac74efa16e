"""The `accord` command: version, help, wrong arguments, exit codes."""

import subprocess
import sys

import pytest
from tests.accord_command import run_accord

from accord import __version__
from accord.cli import COMMANDS
from accord.errors import MissingExtra
from accord.extras import EXTRAS, is_installed, require


def accord(*words: str) -> subprocess.CompletedProcess[str]:
    return run_accord(*words)


def test_version_prints_one_line_with_python_and_extras() -> None:
    run = accord("--version")
    extras = ", ".join(extra for extra in EXTRAS if is_installed(extra)) or "none"
    python = ".".join(map(str, sys.version_info[:3]))
    assert run.returncode == 0
    assert run.stdout == f"accord {__version__} (Python {python}; extras: {extras})\n"


def test_help_lists_the_commands_and_a_missing_command_exits_with_2() -> None:
    assert "doctor" in accord("--help").stdout
    assert accord("--help").returncode == 0
    assert accord().returncode == 2


def test_help_of_a_command_is_the_same_as_its_option() -> None:
    assert accord("help", "completion").stdout == accord("completion", "--help").stdout
    run = accord("completion", "tcsh")
    assert run.returncode == 2
    assert "powershell" in run.stderr
    assert "agents" not in run.stderr


def test_an_unknown_command_is_a_one_line_error() -> None:
    run = accord("nope")
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr == f"accord nope: unknown command; use one of: {', '.join(COMMANDS)}\n"


def test_the_doctor_lists_missing_extras_with_install_commands() -> None:
    run = accord("doctor")
    assert run.returncode == 0
    for extra in EXTRAS:
        line = next(line for line in run.stdout.splitlines() if line.startswith(f"[{extra}]"))
        assert ("installed" in line) == is_installed(extra)
        assert is_installed(extra) or f"pip install 'accord[{extra}]'" in line


def test_a_missing_extra_is_a_one_line_error_with_the_install_command() -> None:
    missing = next((extra for extra in EXTRAS if not is_installed(extra)), None)
    if missing is None:
        pytest.skip("every extra is installed here, so none can be missing")
    run = accord("doctor", missing)
    assert run.returncode == 2
    assert f"pip install 'accord[{missing}]'" in run.stderr
    assert run.stderr.count("\n") == 1
    with pytest.raises(MissingExtra, match=r"accord check needs the \["):
        require(missing, "accord check")
