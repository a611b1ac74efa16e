"""Tickets and browsers: there are never more of them than they are good for."""

import stat
from pathlib import Path

from accord.gateway.access.browsers import Browsers
from accord.gateway.access.tickets import Tickets
from accord.testing import FakeClock


async def test_tickets_that_nobody_uses_do_not_pile_up() -> None:
    clock = FakeClock()
    tickets = Tickets(clock)
    first = tickets.issue("t")
    *_, last = [tickets.issue("t") for _ in range(2000)]
    assert len(tickets) == 1024
    assert tickets.redeem(first) is None
    assert tickets.redeem(last) == "t"
    await clock.advance(30)
    tickets.issue("t")
    assert len(tickets) == 1


def test_a_token_has_so_many_browsers_and_the_one_unheard_of_longest_goes(tmp_path: Path) -> None:
    time = [1_800_000_000.0]
    browsers = Browsers(tmp_path / "browsers", lambda: time[0])
    other = browsers.log_in("other")
    cookies: list[str] = []
    for _ in range(65):
        time[0] += 1
        cookies.append(browsers.log_in("mine"))
    assert [browsers.token(cookie) for cookie in cookies] == [None] + ["mine"] * 64
    assert browsers.token(other) == "other"
    assert {stat.S_IMODE(path.stat().st_mode) for path in browsers.folder.iterdir()} == {0o600}
    browsers.forget("mine")
    assert [browsers.token(cookies[-1]), browsers.token(other)] == [None, "other"]


def test_old_log_ins_are_swept_away(tmp_path: Path) -> None:
    time = [1_800_000_000.0]
    browsers = Browsers(tmp_path, lambda: time[0])
    browsers.log_in("a")
    time[0] += 31 * 86400
    browsers.log_in("b")
    assert len(list(tmp_path.iterdir())) == 1
