"""The terminals of the client: each one that was opened is released."""

import asyncio
import sys
from pathlib import Path
from typing import Any, Self

import pytest

from accord.clock import SYSTEM_CLOCK
from accord.coder.tools.client_terminals import ClientTerminals, TerminalLaunch


class CanceledTerminal:
    """A terminal of the client. The turn is canceled at the moment it is open."""

    def __init__(self, running: list["asyncio.Task[Any]"]) -> None:
        self.released = False
        self._running = running

    async def __aenter__(self) -> Self:
        asyncio.get_running_loop().call_soon(self._running[0].cancel)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.released = True


@pytest.mark.skipif(sys.platform == "win32", reason="launchers are scripts for a POSIX shell")
@pytest.mark.rule("terminal.always-released")
async def test_a_terminal_that_opens_together_with_the_cancel_is_released(tmp_path: Path) -> None:
    running: list[asyncio.Task[Any]] = []
    terminal = CanceledTerminal(running)
    terminals = ClientTerminals([str(tmp_path)])
    launch = TerminalLaunch(
        shell="/bin/sh",
        line="true",
        argv=["/bin/sh", "-c", "true"],
        env={},
        cwd=str(tmp_path),
        confined=False,
    )

    async def show(opened: Any) -> None:
        raise AssertionError("it is canceled before")

    def open_terminal(*_: Any, **__: Any) -> Any:
        return terminal

    running.append(
        asyncio.create_task(terminals.run(open_terminal, launch, str(tmp_path), SYSTEM_CLOCK, 60, show))
    )
    with pytest.raises(asyncio.CancelledError):
        await running[0]
    await terminals.aclose()
    assert terminal.released
