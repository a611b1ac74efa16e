"""The contracts of tokens, browser logins and tickets as checks that every implementation runs.

An `AccessBackend` holds the state. Each node that it opens behaves like a separate gateway.
"""

from collections.abc import Awaitable, Callable
from typing import NamedTuple, Protocol

import pytest

from accord.errors import UsageError
from accord.gateway.access.access_contracts import Browsers, Tickets, Tokens
from accord.gateway.access.access_tokens import new_token


class AccessNode(NamedTuple):
    """The access state as one gateway sees it."""

    tokens: Tokens
    browsers: Browsers
    tickets: Tickets


class AccessBackend(Protocol):
    """Holds the state that several gateways share."""

    async def open(self) -> AccessNode:
        """Another gateway."""
        ...

    async def settle(self) -> None:
        """Wait until every gateway has seen all changes."""
        ...

    async def advance(self, seconds: float) -> None:
        """Let time pass."""
        ...

    def now(self) -> float:
        """The time in seconds since 1970."""
        ...


Check = Callable[[AccessBackend], Awaitable[None]]
CHECKS: dict[str, Check] = {}


def check(function: Check) -> Check:
    CHECKS[function.__name__] = function
    return function


@check
async def a_token_is_valid_on_every_gateway_until_it_is_revoked(backend: AccessBackend) -> None:
    one, two = await backend.open(), await backend.open()
    token, text = new_token("phone", now=backend.now(), agents=["a", "a"], read_only=True)
    await one.tokens.add(token)
    await backend.settle()
    found = two.tokens.find(text)
    assert found == token
    assert token.agents == ("a",)
    assert text not in repr(found)
    assert two.tokens.is_valid(token.id)
    assert two.tokens.find(text[:-1] + ("A" if text[-1] != "A" else "B")) is None
    await two.tokens.remove(token.id)
    await backend.settle()
    assert one.tokens.find(text) is None
    assert one.tokens.get(token.id) is None
    assert not one.tokens.is_valid(token.id)
    with pytest.raises(UsageError, match="unknown token"):
        await one.tokens.remove(token.id)


@check
async def an_expired_token_is_listed_but_not_valid(backend: AccessBackend) -> None:
    node = await backend.open()
    token, text = new_token(now=backend.now(), expires=backend.now() + 10)
    await node.tokens.add(token)
    await backend.settle()
    assert node.tokens.find(text) == token
    await backend.advance(10)
    assert node.tokens.find(text) is None
    assert node.tokens.get(token.id) == token
    assert node.tokens.all() == [token]


@check
async def a_use_is_recorded_and_does_not_revive_a_revoked_token(backend: AccessBackend) -> None:
    one, two = await backend.open(), await backend.open()
    token, _ = new_token(now=backend.now())
    await one.tokens.add(token)
    await backend.settle()
    assert two.tokens.last_used(token) is None
    one.tokens.mark_used(token)
    await backend.settle()
    assert two.tokens.last_used(token) == backend.now()
    await two.tokens.remove(token.id)
    await backend.settle()
    await backend.advance(120)
    one.tokens.mark_used(token)
    await backend.settle()
    assert two.tokens.get(token.id) is None


@check
async def a_login_holds_until_it_ends(backend: AccessBackend) -> None:
    one, two = await backend.open(), await backend.open()
    first, second, other = [await one.browsers.log_in(token) for token in ("t1", "t1", "t2")]
    await backend.settle()
    assert [two.browsers.token(cookie) for cookie in (first, second, other)] == ["t1", "t1", "t2"]
    assert two.browsers.token("unknown") is None
    assert await two.browsers.find(other) == "t2"
    assert await two.browsers.find("unknown") is None
    await two.browsers.log_out(first)
    await backend.settle()
    assert [one.browsers.token(cookie) for cookie in (first, second)] == [None, "t1"]
    one.browsers.forget("t1")
    await backend.settle()
    assert [two.browsers.token(cookie) for cookie in (second, other)] == [None, "t2"]
    await backend.advance(31 * 24 * 3600)
    assert two.browsers.token(other) is None


@check
async def a_ticket_is_good_for_one_socket(backend: AccessBackend) -> None:
    node = await backend.open()
    ticket = await node.tickets.issue("t1", "https://page", "secret")
    await backend.settle()
    assert await node.tickets.redeem("unknown", "https://page") is None
    redeemed = await node.tickets.redeem(ticket, "https://page")
    assert redeemed is not None
    assert (redeemed.token, redeemed.credential) in (("t1", "secret"), ("t1", ""))
    assert await node.tickets.redeem(ticket, "https://page") is None
    stolen = await node.tickets.issue("t1", "https://page")
    assert await node.tickets.redeem(stolen, "https://elsewhere") is None
    late = await node.tickets.issue("t1")
    await backend.advance(31)
    assert await node.tickets.redeem(late) is None
