"""Drives `accord agent` with one real client, and fills the client's row of the table."""

import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.real_programs.agent_exchange import log_name

CLIENT_COLUMNS: Final = ("text", "tool", "refuse")
AGENT: Final = (sys.executable, "-P", "-m", "accord", "agent", "--model", "rehearsal")
EXAMPLES: Final = Path(sys.prefix) / "official-sdk" / "examples"
_STEP_SECONDS: Final = 90.0


@dataclass(frozen=True, kw_only=True)
class ClientProgram:
    """One client of `programs.toml`.

    In its command, `{agent}` is the agent's command as one word, `{agent...}` as several, and `{prompt}` the
    prompt, which goes to stdin if it is not named. `{consent}` is `allow` or `deny`, `{examples}` the
    folder of the official SDK's examples.
    """

    name: str
    command: tuple[str, ...]
    package: str = ""
    version: str = ""
    extra: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()

    def words(self, prompt: str, consent: tuple[str, ...]) -> list[str]:
        """Return the command for one prompt."""
        several = {"{agent...}": AGENT, "{consent}": consent}
        single = {"{agent}": shlex.join(AGENT), "{prompt}": prompt, "{python}": sys.executable}
        words: list[str] = []
        for word in self.command:
            words += several.get(word, (single.get(word, word.replace("{examples}", str(EXAMPLES))),))
        return words


def run_client(program: ClientProgram, install: Callable[..., Path], log: Path) -> list[str]:
    """Return the row of a client. Never raises for what the client does."""
    version = program.version or program.package.rpartition("@")[2] or "this version"
    try:
        cells = _exchange(program, install(program.package, program.extra), log)
    except (subprocess.SubprocessError, OSError) as error:
        cells = [f"{type(error).__name__}", "", ""]
    row = [program.name, version, *cells]
    sys.stdout.write(" | ".join(row) + "\n")
    sys.stdout.flush()
    return row


def _exchange(program: ClientProgram, programs: Path, log: Path) -> list[str]:
    with tempfile.TemporaryDirectory(prefix="interop-", ignore_cleanup_errors=True) as root:
        home, folder = Path(root, "home"), Path(root, "project")
        home.mkdir()
        folder.mkdir()
        (folder / "README.md").write_text("A project.\n")
        outputs: list[str] = []

        def run(prompt: str, consent: tuple[str, ...]) -> str:
            words = program.words(prompt, consent)
            done = subprocess.run(
                words,
                cwd=folder,
                env={
                    "HOME": str(home),
                    "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
                    "ACCORD_HOME": str(home / "accord"),
                },
                input="" if "{prompt}" in program.command else f"{prompt}\n",
                capture_output=True,
                text=True,
                timeout=_STEP_SECONDS,
                check=False,
            )
            outputs.append(
                f"$ {shlex.join(words)}\n{done.stdout}\n{done.stderr}\nexit code {done.returncode}"
            )
            return done.stdout

        text = "A project." in run("read README.md", program.allow)
        run("write made.txt: hello", program.allow)
        run("write refused.txt: hello", program.deny)
        (log / log_name(program.name)).write_text("\n".join(outputs))
        made, refused = (folder / "made.txt").exists(), not (folder / "refused.txt").exists()
    return [
        "yes" if text else "no answer shown",
        "yes" if made else "never allows" if not program.allow else "the file was not made",
        "yes" if refused else "did it anyway",
    ]
