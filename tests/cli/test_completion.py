"""`accord completion` and the man pages: generated from the parsers, and they complete what a user types."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.patience import PATIENCE
from tools import completion_scripts, man_pages

from accord.cli import main
from accord.cli.completion_command import SCRIPTS

FOLDER = completion_scripts.FOLDER
# Completes the words of each line of stdin and prints the offers in one line.
BASH = """
accord() { echo claude; echo codex; }
source "$1"
while read -r line; do
    eval "COMP_WORDS=($line)"
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    _accord
    echo "${COMPREPLY[*]}"
done
"""
CASES = {
    "accord ses": "sessions",
    "accord serve token ''": "new list revoke",
    "accord run --form": "--format",
    "accord run --format ''": "text json quiet",
    "accord run --format = j": "json",
    "accord run --url ''": "",
    "accord run -a cl": "claude",
    "accord chat ''": "claude codex",
    "accord serve --log-level ''": "debug info warning error",
    "accord run --cwd sr": "src",
    "accord trace show pyp": "pyproject.toml",
    "accord check agent -- cat pyp": "pyproject.toml",
    "accord completion z": "zsh",
}


def test_the_committed_files_are_those_of_the_parsers() -> None:
    files = completion_scripts.scripts() | man_pages.pages()
    stale = [
        path.name for path, text in files.items() if not path.exists() or path.read_text("utf-8") != text
    ]
    assert stale == [], "run `make commands`"
    folders = {path.parent: {file.name for file in path.parent.iterdir()} for path in files}
    assert folders == {folder: {path.name for path in files if path.parent == folder} for folder in folders}


def test_bash_completes_commands_options_values_and_names() -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("bash is not installed")
    done = subprocess.run(
        [bash, "-c", BASH, "bash", str(FOLDER / "accord.bash")],
        input="".join(f"{line}\n" for line in CASES),
        cwd=FOLDER.parents[3],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert done.stderr == ""
    assert dict(zip(CASES, done.stdout.split("\n"), strict=False)) == CASES


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_accept_their_script(shell: str) -> None:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    done = subprocess.run([program, "-n", str(FOLDER / SCRIPTS[shell])], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("shell", SCRIPTS)
def test_the_command_prints_the_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    assert capsys.readouterr().out == (FOLDER / SCRIPTS[shell]).read_text("utf-8")


def test_printing_a_script_loads_no_parser() -> None:
    code = "import sys; from accord.cli import main; main(['completion', 'bash']); "
    code += "sys.exit(sorted({'argparse', 'msgspec'} & set(sys.modules)) or 0)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_names_that_a_shell_would_expand_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ACCORD_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    servers = {name: {"command": "x"} for name in ("plain", "$(touch x)", "a b", "`x`")}
    (tmp_path / "acp.json").write_text(json.dumps({"servers": servers}))
    assert main(["completion", "agents"]) == 0
    names = capsys.readouterr().out.splitlines()
    assert {"accord", "claude", "plain"} <= set(names)
    assert not [name for name in names if set(name) & set("$` (")]
