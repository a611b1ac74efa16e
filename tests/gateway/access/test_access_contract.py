"""Runs the contracts of tokens, logins, tickets and devices against the implementations of one machine."""

from pathlib import Path

import pytest
from tests.gateway.access.access_contract import CHECKS, AccessNode

from accord.gateway.access.access_tokens import TokenStore
from accord.gateway.access.browser_logins import BrowserLogins, MemoryTickets
from accord.gateway.access.push_devices import FilePushDevices
from accord.testing import FakeClock


class FileBackend:
    """Tokens and logins in files, tickets in memory."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._time = 1_800_000_000.0
        self._clock = ShiftedClock(self)

    async def open(self) -> AccessNode:
        return AccessNode(
            TokenStore(self._folder / "tokens", self.now),
            BrowserLogins(self._folder / "browsers", self.now),
            MemoryTickets(self._clock),
            FilePushDevices(self._folder / "push"),
        )

    async def settle(self) -> None:
        pass

    async def advance(self, seconds: float) -> None:
        self._time += seconds

    def now(self) -> float:
        return self._time


class ShiftedClock(FakeClock):
    """A clock that shows the time of its backend."""

    def __init__(self, backend: FileBackend) -> None:
        super().__init__()
        self._backend = backend

    def now(self) -> float:
        return self._backend.now()


@pytest.mark.parametrize("check", CHECKS)
async def test_contract(check: str, tmp_path: Path) -> None:
    await CHECKS[check](FileBackend(tmp_path))
