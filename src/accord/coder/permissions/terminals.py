"""The sandbox in the client's terminals: only where it was tried, because a client may well run on another machine."""

import asyncio
import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from accord.clock import Clock, within
from accord.coder.tools.context import Confinement, OpenTerminal
from accord.errors import AccordError
from accord.policy.sandbox.backend import Confined
from accord.policy.sandbox.sandbox import Sandbox

_PATIENCE: Final = 10.0


@dataclass(frozen=True, slots=True)
class InTerminals:
    """A sandbox for commands that the client starts: from the session's folder, since clients may open no other."""

    sandbox: Sandbox
    folder: str

    def wrap(
        self, argv: Sequence[str], *, env: Mapping[str, str] | None = None, cwd: str | None = None
    ) -> Confinement:
        """As the sandbox does; where the command itself starts is the sandbox's business."""
        confined = self.sandbox.wrap(argv, env=env, cwd=cwd)
        return Confined(confined.argv, confined.env, self.folder if confined.cwd == "/" else confined.cwd)

    async def runs(self, open_terminal: OpenTerminal, clock: Clock) -> bool:
        """Whether commands in the client's terminals run in it: one has to print a word that lies only in its own folder."""
        word, name = secrets.token_hex(16), f"probe-{secrets.token_hex(8)}"
        place = os.path.join(self.sandbox.private.temp, name)
        try:
            await asyncio.to_thread(_leave, place, word)
        except OSError:
            return False
        trying = asyncio.ensure_future(self._try(word, name, open_terminal))
        try:
            return await within(clock, _PATIENCE, trying) and trying.result()
        finally:
            trying.cancel()
            await asyncio.gather(trying, return_exceptions=True)
            await asyncio.to_thread(_take_away, place)

    async def _try(self, word: str, name: str, open_terminal: OpenTerminal) -> bool:
        confined = self.wrap(["cat", os.path.join(self.sandbox.temp, name)])
        program, *args = confined.argv
        try:
            terminal = open_terminal(
                program, args, env=confined.env, cwd=confined.cwd, output_byte_limit=1024
            )
            async with terminal:
                result = await terminal.finish(None)
        except AccordError:
            return False
        return result.exit_code == 0 and result.output.strip() == word


def _leave(place: str, word: str) -> None:
    # Commands write to that folder, too; a name that must be new leads nowhere else.
    with open(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(word)


def _take_away(place: str) -> None:
    if os.path.lexists(place):
        os.unlink(place)
