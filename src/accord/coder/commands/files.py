"""Commands that stand in files: the user's own, and the project's, which count once the user has agreed to their content."""

import asyncio
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from accord.agent.turn import Turn
from accord.coder.commands.command import Ask, Reply, asked_with
from accord.coder.commands.filling import fill
from accord.coder.commands.frontmatter import read
from accord.coder.tools.tool import listing, one_line
from accord.policy.trust import Trust
from accord.schema.permissions import PermissionOption

if TYPE_CHECKING:
    from accord.coder.workbench import Workbench

PROJECT_FOLDER: Final = os.path.join(".accord", "commands")
ENDING: Final = ".md"
MOST_BYTES: Final = 64 * 1024
MOST_FILES: Final = 200
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")

_UNTRUSTED: Final = "A command of this project that you have not trusted yet: you are asked before it is used"
_TRUST: Final = (
    PermissionOption("once", "Use it this once", "allow_once"),
    PermissionOption("trust", "Use it, and trust the file as it is now", "allow_always"),
    PermissionOption("reject", "Do not use it", "reject_once"),
)


class Unusable(Exception):
    """Why a file is no command."""


@dataclass(frozen=True, slots=True)
class FileCommand:
    """A prompt in a file."""

    name: str
    path: Path
    shown: str
    """The path, for people."""
    content: bytes
    """What was read: what is agreed to and what is asked are the same."""
    trusted: bool = True

    @property
    def description(self) -> str:
        """Nothing of a file that nobody has agreed to is shown in a menu."""
        return read(self._text).description if self.trusted else _UNTRUSTED

    @property
    def hint(self) -> str | None:
        written = read(self._text)
        return written.hint or ("text" if "$" in written.prompt else None) if self.trusted else None

    @property
    def _text(self) -> str:
        return self.content.decode("utf-8-sig")

    async def run(self, text: str, turn: Turn, bench: "Workbench", /) -> Reply | Ask:
        """Ask the model what the file says."""
        if not self.trusted and (no := await self._agreed(turn, bench)) is not None:
            return no
        return await asked_with(fill(read(self._text).prompt, text), turn, bench)

    async def _agreed(self, turn: Turn, bench: "Workbench") -> Reply | None:
        """Show the user the file and ask; what to say if it is not to be used."""
        async with turn.tool_call(
            f"Use the project's command {self.shown}", kind="other", raw_input={"path": str(self.path)}
        ) as call:
            await call.replace([listing(self._text, language="markdown")])
            answer = await call.ask_permission(_TRUST, timeout=bench.conversation.coder.permissions.seconds)
            if not answer:
                return Reply(
                    f"`/{self.name}` was not used: it comes with the project, from {self.shown}, and you have not "
                    "agreed to what it says. Type it again to be asked again."
                )
            if answer.always:
                try:
                    await asyncio.to_thread(Trust().trust, self.path, self.content)
                except OSError as error:
                    await turn.notice(
                        f"The trust in {self.shown} could not be kept: {error.strerror or error}"
                    )
        return None


def files_in(folder: Path, shown: str) -> Iterator[FileCommand | str]:
    """The commands in a folder, sorted by name, and a line for each file that is none. Reads the disk: not on the loop."""
    try:
        names = sorted(entry.name for entry in os.scandir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        yield f"`{shown}`: {error.strerror or error}"
        return
    names = [name for name in names if name.endswith(ENDING) and not name.startswith(".")]
    for name in names[:MOST_FILES]:
        place = one_line(os.path.join(shown, name))
        try:
            yield FileCommand(_name(name), folder / name, place, _content(folder / name))
        except Unusable as problem:
            yield f"`{place}`: {problem}"
    if len(names) > MOST_FILES:
        yield f"`{shown}`: only the first {MOST_FILES} files are read"


def project_files(cwd: str) -> Iterator[FileCommand | str]:
    """The commands of a project, each with whether the user trusts it as it is."""
    trust = Trust()
    root = os.path.realpath(cwd)
    for found in files_in(Path(cwd, PROJECT_FOLDER), PROJECT_FOLDER):
        if isinstance(found, str):
            yield found
        elif not Path(os.path.realpath(found.path)).is_relative_to(root):
            yield f"`{found.shown}`: it leads out of the project"
        else:
            yield replace(found, trusted=trust.is_trusted(found.path, found.content))


def _name(file: str) -> str:
    name = file.removesuffix(ENDING)
    if not _NAME.fullmatch(name):
        raise Unusable("its name is not made of letters, digits, `-` and `_` alone, 64 at most")
    return name


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
    try:
        prompt = read(content.decode("utf-8-sig")).prompt
    except UnicodeDecodeError:
        raise Unusable("it is not UTF-8") from None
    if not prompt:
        raise Unusable("it says nothing")
    return content
