"""`accord tour`: shows a plan, an approval, a resumed session, a rewind and the page, without a model.

Every step is a real `accord` command in a temporary folder, with settings and sessions of its own.
"""

import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from accord.cli.command_parser import Parser, is_terminal
from accord.cli.exit_codes import DONE, INTERRUPTED, NO_PERMISSION
from accord.errors import AccordError
from accord.extras import is_installed

_FILE: Final = "greeting.py"
_CODE: Final = 'def greet(name):\n    return f"Helo, {name}!"\n\n\nprint(greet("world"))\n'
_SERVE_LINES: Final = 60
"""More than the gateway prints until it is ready, with the QR code."""
_SERVE_READY: Final = "Press Ctrl-C"
_STOP_SECONDS: Final = 10.0


class TourStep(NamedTuple):
    """One command of the tour."""

    title: str
    text: str
    words: tuple[str, ...]


_STEPS: Final = (
    TourStep(
        "A plan",
        "`accord run` runs one turn of an agent: Accord's own, or Claude Code, Codex, OpenCode and others.\n"
        f"The agent plans, then looks at {_FILE}, which greets with a typing error.",
        ("run", f"plan: read the code; fix the greeting; check it then read {_FILE}"),
    ),
    TourStep(
        "An edit that you approve",
        "The agent may read. Before it changes a file, it asks you and shows the change.",
        ("run", f"read {_FILE} then replace Helo with Hello in {_FILE}"),
    ),
    TourStep(
        "A resumed session",
        "Sessions are kept. `--continue` goes on with the newest of the folder, `--session ID` with any.\n"
        "The last line names the same session as before.",
        ("run", "--continue", f"search Hello in {_FILE}"),
    ),
    TourStep(
        "Take it back",
        "Undo and rewind go back to an earlier prompt, with the conversation, the files, or both.\n"
        f"The second prompt of the list is the edit: {_FILE} becomes as it was. `/redo` would redo it.",
        ("run", "--continue", "/rewind 2"),
    ),
    TourStep(
        "All sessions of the folder",
        "The newest is first. `accord sessions show ID` shows a whole session.",
        ("sessions", "list"),
    ),
)
_PAGE: Final = TourStep(
    "The page",
    "`accord serve` puts your agents and these sessions on a page, for this browser or your phone.",
    ("serve", "--no-qr"),
)


def main(arguments: Sequence[str]) -> int:
    """Run the tour and return the exit code."""
    parser = Parser("accord tour", "See what Accord does, in two minutes and without a key.")
    parser.option("-y --yes", "do not wait for Enter; allow the edit")
    options = parser.parse_args(arguments)
    interactive = not options.yes and is_terminal(sys.stdin) and is_terminal(sys.stdout)
    with tempfile.TemporaryDirectory(prefix="accord-tour-", ignore_cleanup_errors=True) as folder:
        try:
            _Tour(Path(folder), interactive=interactive).run()
        except (KeyboardInterrupt, EOFError):
            print("\nThe tour has ended early. Its files are removed.")
            return INTERRUPTED
    print(
        "\nThat was the tour. Its files are removed. Next:\n"
        "  accord doctor             what works on this machine, and what to do next\n"
        "  accord agents list        the agents that you can use\n"
        "  accord agents setup zed   Accord's agent in your editor"
    )
    return DONE


class _Tour:
    """The temporary project and home of one tour."""

    def __init__(self, folder: Path, *, interactive: bool) -> None:
        self._interactive = interactive
        self._project = folder / "project"
        self._project.mkdir()
        (self._project / _FILE).write_text(_CODE)
        self._environment = {**os.environ, "ACCORD_HOME": str(folder / "home"), "ACCORD_MODEL": "rehearsal"}
        self._steps = len(_STEPS) + 1

    def run(self) -> None:
        """Run all steps. Raises AccordError if one fails."""
        print(
            "A tour of Accord, about two minutes. The model is `rehearsal`, a script inside the package:\n"
            "no key, no network, no cost. Everything happens in a temporary folder."
        )
        for number, step in enumerate(_STEPS, 1):
            self._show(number, step)
            self._run(step)
        if is_installed("gateway"):
            self._show(self._steps, _PAGE)
            self._serve()
        else:
            self._introduce(self._steps, _PAGE)
            print("It needs a part of Accord that is not installed. To see the page, type:\n")
            print(f"  {_install_command('gateway')}\n  accord serve")

    def _introduce(self, number: int, step: TourStep) -> None:
        print(f"\n── {number} of {self._steps}: {step.title} ──\n{step.text}\n")

    def _show(self, number: int, step: TourStep) -> None:
        self._introduce(number, step)
        print(f"$ accord {' '.join(_quoted(word) for word in step.words)}")
        self._wait("Enter runs the command, Ctrl-C ends the tour. ")

    def _wait(self, prompt: str) -> None:
        # Not `input`: it misses a Ctrl-C between showing the prompt and reading.
        print(prompt if self._interactive else "", end="", flush=True)
        if self._interactive and not sys.stdin.readline():
            raise EOFError

    def _run(self, step: TourStep) -> None:
        words = step.words
        if words[0] == "run":
            words = (*words, "--permissions", "ask" if self._interactive else "all")
        with self._start(words, stdin=None if self._interactive else subprocess.DEVNULL) as process:
            code = process.wait()
        if code == INTERRUPTED:
            raise KeyboardInterrupt
        if code == NO_PERMISSION:
            print(f"You said no, so {_FILE} is unchanged.")
        elif code != DONE:
            raise AccordError(f"a step ended with exit code {code}; `accord doctor` shows what is broken")

    def _serve(self) -> None:
        """Run the gateway until Enter; without a user only until it has printed its link."""
        words = (*_PAGE.words, "--log-level", "error")
        with self._start(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            lines: list[str] = []
            for _ in range(_SERVE_LINES):
                line = process.stdout.readline()
                if not line or line.startswith(_SERVE_READY):
                    break
                lines.append(line)
            if process.poll() is not None:
                raise AccordError("the gateway has ended; `accord doctor` shows what is broken")
            address = re.search(r"listening on (\S+)", "".join(lines))
            if not self._interactive or address is None:
                print("".join(lines), end="")
                return
            # Without a terminal, the gateway makes no token and prints a line about that.
            print("".join(line for line in lines if not line.startswith("There is no token")), end="")
            print(f"\nOpen this link. Its token ends with the tour:\n\n  {address[1]}/#token={self._token()}")
            self._wait("\nLook around, and press Enter to stop the gateway. ")

    def _token(self) -> str:
        words = ("serve", "token", "new", "--name", "tour", "--plain")
        with self._start(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
            return process.communicate()[0].strip()

    @contextmanager
    def _start(
        self, words: Sequence[str], *, stdin: int | None, stdout: int | None = None
    ) -> Generator[subprocess.Popen[str]]:
        """Start an `accord` command, and end it with the block."""
        process = subprocess.Popen(
            [sys.executable, "-m", "accord", *words],
            cwd=self._project,
            env=self._environment,
            stdin=stdin,
            stdout=stdout,
            text=True,
            encoding="utf-8",
        )
        try:
            yield process
        finally:
            # Ctrl-C reaches the command as well, which then ends by itself.
            process.terminate()
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if process.stdout is not None:
                process.stdout.close()


def _install_command(extra: str) -> str:
    """Return the command that installs an extra, also if this Accord runs from a clone."""
    clone = Path(__file__).resolve().parents[3]
    if not (clone / "pyproject.toml").is_file():
        return f"pip install 'accord[{extra}]'"
    return shlex.join((sys.executable, "-m", "pip", "install", "-e", f"{clone}[{extra}]"))


def _quoted(word: str) -> str:
    return f'"{word}"' if " " in word else word
