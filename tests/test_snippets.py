"""Every block of code in README.md and docs/ runs, or says why it does not."""

import asyncio
import contextlib
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from tests import warm_start
from tests.patience import PATIENCE
from tools.snippets import ROOT, Snippet, pages, snippets

import accord
import accord.testing

FILES = {
    "README.md": "# Demo\nA small project.\n",
    "app.py": "def greet(name):\n    return f'Hello, {name}'\n",
    "src/app.py": "def greet(name):\n    return f'Hello, {name}'\n",
    "src/main.py": "import app\n# TODO\n",
    "AGENTS.md": "Build with `make`, test with `pytest -q`. Do not edit files in `generated/`.\n",
    "script.json": '[[{"think": "hm"}, {"say": "Hello"}, {"stop": "end_turn"}]]\n',
    "task.md": "list .\n",
    "pytest.ini": "[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\n",
}
"""The project in which the commands of a page run."""

STAND_INS = ("claude-agent-acp", "codex-acp", "opencode", "my-agent", "some-agent")
"""Agents of others, for which Accord's own agent with its scripted model stands in."""

NOT_RUN = {
    r"pip |uv |uvx |npm |npx |apt ": "installs packages",
    r"python -m venv ": "makes an environment",
    r"make |python -m (benchmarks|tests|build)|\.venv/bin/|python tools/|git (tag|push)": "works in a clone",
    r"accord chat\b(?!.*\|)(?! --model)": "is a full-screen program",
    r"accord serve( --[\w-]+( [^-\s]\S*)?)*$": "runs until it is stopped",
    r"accord agent --login|accord agents log(in|out)|accord agents trust": "asks a person",
    r"accord agents setup .*--(write|remove)": "changes the settings of an editor",
    r"systemctl|loginctl|journalctl|uvicorn|curl|nats-server": "needs services of the machine",
    r"python -W error|python -m accord.testing hostile dies": "waits for input",
    r".*(example\.org|localhost:|acc_\.\.\.|openai|ollama|--token-file)": "needs an agent or model elsewhere",
    r".*\| jq|jq ": "needs jq",
}
"""Commands that are not run, with the reason."""


def wanted(block: Snippet) -> bool:
    return "fragment" not in block.notes and not block.is_continued


PAGES = [page for page in pages() if page.parent.name != "api" or page.name == "index.md"]


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of programs for PATH."""
    folder = tmp_path_factory.mktemp("bin")
    python = shlex.quote(sys.executable)
    lines = {"accord": "-m accord.cli", "python": "", "pytest": "-m pytest -p no:cacheprovider"}
    lines |= dict.fromkeys(STAND_INS, "-m accord.cli agent --model rehearsal #")
    for name, arguments in lines.items():
        program = folder / name
        program.write_text(f'#!/bin/sh\nexec {python} {arguments} "$@"\n'.replace('# "$@"', ""))
        program.chmod(0o755)
    return folder


@pytest.fixture
def project(tmp_path: Path, programs: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a page, with the environment for its code."""
    folder = tmp_path / "project"
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("ACCORD_HOME", str(home / "accord"))
    monkeypatch.setenv("ACCORD_MODEL", "rehearsal")
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    return folder


def named_files(page: Path) -> dict[str, str]:
    """The files of a page, and the agents of the tutorial."""
    found: dict[str, str] = {}
    for source in (ROOT / "docs" / "first-agent.md", page):
        found |= {
            block.file: block.code
            for block in snippets(source)
            if block.file and "fragment" not in block.notes
        }
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_code_of_a_page_runs(page: Path, project: Path) -> None:
    blocks = [block for block in snippets(page) if wanted(block)]
    if not any(block.language in ("python", "console", "bash") for block in blocks):
        return
    subprocess.run(["git", "init", "-q"], cwd=project, check=True)
    for name, code in named_files(page).items():
        (project / name).write_text(code)
    shown = "\n".join(block.code for block in blocks if block.language == "console")
    for block in blocks:
        if block.language == "console":
            run_commands(block, project)
        elif block.language == "python" and "not run" not in block.notes:
            if block.file is None:
                run_python(block)
            elif block.file not in shown and not block.file.startswith("test_"):
                run_file(block, project)
    tests = [block.file for block in blocks if block.file and block.file.startswith("test_")]
    if tests and not re.search(r"^\$ pytest -q$", shown, re.MULTILINE):
        done = subprocess.run(
            ["pytest", "-q", *tests], cwd=project, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout


def run_file(block: Snippet, project: Path) -> None:
    """Run a program. One that serves an agent ends at once, because its stdin is empty."""
    done = subprocess.run(
        [sys.executable, str(block.file)],
        cwd=project,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert (done.returncode, done.stderr) == (0, ""), f"{block.place}: {done.stderr}"


def run_python(block: Snippet) -> None:
    """Run a block in this process."""
    names: dict[str, Any] = {"__name__": "snippet"}
    exec(compile(block.module(), block.place, "exec"), names)
    if "snippet" in names:
        asyncio.run(run_function(names["snippet"], block))


async def run_function(function: Any, block: Snippet) -> None:
    async with given_values() as values, asyncio.timeout(PATIENCE):
        await function(**{name: values[name] for name in block.given})


@contextlib.asynccontextmanager
async def given_values() -> AsyncGenerator[dict[str, Any]]:
    """The parameters of blocks, see `tools.snippets.GIVEN`."""
    app = accord.Agent("hello", version="1.0")

    @app.prompt
    async def reply(turn: accord.Turn) -> None:
        await turn.say(turn.text)

    scripted = accord.testing.ScriptedAgent()
    async with (
        accord.connect_transport(scripted.transport()) as agent,
        accord.testing.scripted_client(app) as client,
    ):
        yield {
            "agent": agent,
            "app": app,
            "client": client,
            "folder": os.getcwd(),
            "handlers": accord.ClientHandlers(),
            "options": accord.ClientOptions(),
            "policy": accord.Policy(),
            "session": await agent.new_session("."),
            "token": "acc_...",
            "transport": scripted.transport(),
        }


def commands_of(block: Snippet) -> list[tuple[str, str]]:
    """The commands of a block, each with the output that the page shows."""
    found: list[list[str]] = []
    for line in block.code.splitlines():
        if line.startswith("$ "):
            found.append([line[2:], ""])
        elif found and not found[-1][1] and found[-1][0].endswith(("\\", "'", "|")) and line.startswith(" "):
            found[-1][0] += f"\n{line}"
        elif found:
            found[-1][1] += f"{line}\n"
    return [(command, output) for command, output in found]


def run_commands(block: Snippet, project: Path) -> None:
    """Run the commands of a block, in one shell if they need one, and compare their output with the page."""
    commands = [
        (command, output)
        for command, output in commands_of(block)
        if not any(re.match(pattern, re.sub(r" +#.*", "", command)) for pattern in NOT_RUN)
    ]
    if any(re.match(r"cd |export ", command) for command, _ in commands):  # they change the next ones
        results = run_shell([command for command, _ in commands], project)
    else:
        results = []
        for command, _ in commands:
            words = plain_words(command)
            before = results[-1][0] if results else 0
            results += [run_program(words, project)] if words else run_shell([command], project, before)
    for (command, expected), (status, output) in zip(commands, results, strict=True):
        assert status == 0 or expected.strip(), f"{block.place}: {command}: exit code {status}\n{output}"
        assert_shown(expected, output, f"{block.place}: {command}")


def plain_words(command: str) -> list[str]:
    """The words of a command without anything that a shell has to do, else none."""
    line = command.replace("\\\n", " ").removesuffix(" < /dev/null")  # which is what every command gets
    if re.search(r"[|&;<>()$`*?{}\[\]~!\\\n]", re.sub(r"""'[^']*'|"[^"$`\\]*"| +#.*""", "", line)):
        return []
    words = shlex.split(line, comments=True)
    return words if words[0] in ("accord", "python", "pytest") else []


def run_program(words: list[str], project: Path) -> tuple[int, str]:
    """Run a program without a shell, so that it starts as the programs of other tests do."""
    program = shutil.which(words[0])
    assert program is not None
    with warm_start.warm_starts():
        done = subprocess.run(
            [program, *words[1:]],
            cwd=project,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=PATIENCE,
        )
    return done.returncode, done.stdout


def run_shell(commands: list[str], project: Path, before: int = 0) -> list[tuple[int, str]]:
    """Run commands in one shell, after one with the exit code `before`."""
    lines = ["exec 2>&1", f"(exit {before})"]
    for command in commands:
        lines += [command, 's=$?; printf "\\n@@@ %d\\n" $s; (exit $s)']
    done = subprocess.run(
        ["bash", "-c", "\n".join(lines)],
        cwd=project,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    results = re.split(r"\n@@@ (\d+)\n", done.stdout)
    return [(int(results[2 * number + 1]), results[2 * number]) for number in range(len(commands))]


def assert_shown(expected: str, output: str, place: str) -> None:
    """Compare, where `...` stands for anything and numbers (but not `0 fail`), ids and folders differ."""
    rest = comparable(output)
    for piece in re.split(r"\.\.\.", expected):
        text = comparable(piece)
        assert text in rest, f"{place}\nthe page shows\n{piece}\nbut the command printed\n{output}"
        rest = rest.partition(text)[2] if text else rest


def comparable(text: str) -> str:
    text = re.sub(r"^· Sandbox.*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"/[\w./-]*/(?=acp\.json|project|notes|README|site|audit)", "/", text)
    text = re.sub(r"\b[0-9a-f]{8}-[0-9a-f-]*", "ID", text)
    text = re.sub(r"\[[0-9a-f]{6}\]", "[ID]", text)
    text = re.sub(r"\b0 fail", "no fail", text)
    text = re.sub(r"\d+([.,:-]\d+)*( ?(µs|ms|s|B|kB|MiB))?\b", "0", text)
    return " ".join(text.split())


def test_every_note_before_a_block_has_a_reason() -> None:
    for page in pages():
        for block in snippets(page):
            for kind in ("fragment", "not run"):
                assert block.notes.get(kind, "a reason"), f"{block.place}: {kind} without a reason"
