"""Commands that stand in files: the user's own, and the project's, which count once the user has agreed to their content."""

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from accord.agent.turn import Turn
from accord.coder.commands.command import Ask, Reply, asked_with
from accord.coder.commands.filling import fill, takes_text
from accord.coder.commands.frontmatter import Written, read
from accord.coder.permissions.projectfiles import ProjectFile, ProjectFiles, project_files
from accord.coder.permissions.trusting import ask_trust, asking_in
from accord.coder.tools.tool import one_line
from accord.policy.trust import Trust

if TYPE_CHECKING:
    from accord.coder.workbench import Workbench

ENDING: Final = ".md"
MOST_BYTES: Final = 64 * 1024
MOST_FILES: Final = 200
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")

_UNTRUSTED: Final = "A command of this project that you have not trusted yet: you are asked before it is used"

_SOMETHING: Final = "arguments"
"""What may be typed behind a command whose file says nothing about it: without a hint some clients let nobody type."""


class Unusable(Exception):
    """Why a file is no command."""


@dataclass(frozen=True, slots=True)
class FileCommand:
    """A prompt in a file."""

    name: str
    shown: str
    """The path, for people."""
    written: Written
    untrusted: ProjectFile | None = None
    """The file, if the user must agree to it first."""

    @property
    def description(self) -> str:
        """Nothing of a file that nobody has agreed to is shown in a menu."""
        return self.written.description if self.untrusted is None else _UNTRUSTED

    @property
    def hint(self) -> str | None:
        if self.untrusted is not None:
            return _SOMETHING
        return self.written.hint or (_SOMETHING if takes_text(self.written.prompt) else None)

    async def run(self, text: str, turn: Turn, bench: "Workbench", /) -> Reply | Ask:
        """Ask the model what the file says."""
        if self.untrusted is not None:
            asked_about = ProjectFiles([self.untrusted], {}, Trust())
            if not await ask_trust(asked_about, asking_in(turn), clock=bench.conversation.clock):
                return Reply(
                    f"`/{self.name}` was not used: it comes with the project, from `{self.shown}`, and you have not "
                    "trusted what it says. Type it again to be asked again."
                )
        return await asked_with(fill(self.written.prompt, text), turn, bench)


def own_commands(folder: Path) -> Iterator[FileCommand | str]:
    """The user's commands by name, and a line for each file that is none. Reads the disk: not on the event loop."""
    try:
        names = sorted(entry.name for entry in os.scandir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        yield f"`{folder}`: {error.strerror or error}"
        return
    names = [name for name in names if name.endswith(ENDING) and not name.startswith(".")]
    for name in names[:MOST_FILES]:
        shown = one_line(str(folder / name))
        try:
            yield _command(name, shown, _content(folder / name))
        except Unusable as problem:
            yield f"`{shown}`: {problem}"
    if len(names) > MOST_FILES:
        yield f"`{folder}`: only the first {MOST_FILES} files are read"


def project_commands(cwd: str) -> Iterator[FileCommand | str]:
    """The same for those of a project, of which the untrusted ones ask first."""
    files = project_files(cwd, purposes=["command"])
    for name, file in sorted((*files.trusted.items(), *files.untrusted.items())):
        shown = one_line(name)
        untrusted = file if name in files.untrusted else None
        try:
            yield _command(os.path.basename(name), shown, file.content, untrusted)
        except Unusable as problem:
            yield f"`{shown}`: {problem}"
    for name, why in files.left_out.items():
        yield f"`{one_line(name)}`: {why}"


def _command(file: str, shown: str, content: bytes, untrusted: ProjectFile | None = None) -> FileCommand:
    name = file.removesuffix(ENDING)
    if not _NAME.fullmatch(name):
        raise Unusable("its name is not made of letters, digits, `-` and `_` alone, 64 at most")
    try:
        written = read(content.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise Unusable("it is not UTF-8") from None
    if not written.prompt:
        raise Unusable("it says nothing")
    return FileCommand(name, shown, written, untrusted)


def _content(path: Path) -> bytes:
    try:
        # Without blocking: somebody may have put a pipe there.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise Unusable("it is no file")
            content = os.read(descriptor, MOST_BYTES + 1)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise Unusable(error.strerror or str(error)) from None
    if len(content) > MOST_BYTES:
        raise Unusable(f"it has more than {MOST_BYTES:,} bytes")
    return content
