"""Tickets and browser logins, and how many of each are kept."""

import stat
from pathlib import Path

from accord.gateway.access.browser_logins import BrowserLogins, MemoryTickets
from accord.testing import FakeClock


async def test_unused_tickets_are_limited_in_number() -> None:
    clock = FakeClock()
    tickets = MemoryTickets(clock)
    first = await tickets.issue("t")
    *_, last = [await tickets.issue("t") for _ in range(2000)]
    assert len(tickets) == 1024
    assert await tickets.redeem(first) is None
    assert await tickets.redeem(last) == ("t", "")
    await clock.advance(30)
    await tickets.issue("t")
    assert len(tickets) == 1


async def test_a_token_has_a_limited_number_of_browsers_and_drops_the_oldest(tmp_path: Path) -> None:
    time = [1_800_000_000.0]
    browsers = BrowserLogins(tmp_path / "browsers", lambda: time[0])
    other = await browsers.log_in("other")
    cookies: list[str] = []
    for _ in range(65):
        time[0] += 1
        cookies.append(await browsers.log_in("mine"))
    assert [browsers.token(cookie) for cookie in cookies] == [None] + ["mine"] * 64
    assert browsers.token(other) == "other"
    assert {stat.S_IMODE(path.stat().st_mode) for path in browsers.folder.iterdir()} == {0o600}
    browsers.forget("mine")
    assert [browsers.token(cookies[-1]), browsers.token(other)] == [None, "other"]


async def test_expired_logins_are_removed(tmp_path: Path) -> None:
    time = [1_800_000_000.0]
    browsers = BrowserLogins(tmp_path, lambda: time[0])
    await browsers.log_in("a")
    time[0] += 31 * 86400
    await browsers.log_in("b")
    assert len(list(tmp_path.iterdir())) == 1
