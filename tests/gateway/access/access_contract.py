"""The contracts of tokens, browser logins, tickets and devices as checks that every implementation runs.

An `AccessBackend` holds the state. Each node that it opens behaves like a separate gateway.
"""

from collections.abc import Awaitable, Callable
from typing import NamedTuple, Protocol

import pytest

from accord.errors import UsageError
from accord.gateway.access.access_contracts import Browsers, PushDevices, Tickets, Tokens
from accord.gateway.access.access_tokens import new_token
from accord.gateway.access.push_devices import MAX_DEVICES, PushDevice
from accord.gateway.access.request_origin import RequestRefused


class AccessNode(NamedTuple):
    """The access state as one gateway sees it."""

    tokens: Tokens
    browsers: Browsers
    tickets: Tickets
    devices: PushDevices


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


async def _added_token(node: AccessNode, backend: AccessBackend) -> tuple[str, str]:
    """The id and the text of a new token."""
    token, text = new_token(now=backend.now())
    await node.tokens.add(token)
    await backend.settle()
    return token.id, text


@check
async def a_login_holds_until_it_ends(backend: AccessBackend) -> None:
    one, two = await backend.open(), await backend.open()
    (token1, text1), (token2, text2) = [await _added_token(one, backend) for _ in range(2)]
    logins = (token1, text1), (token1, text1), (token2, text2)
    first, second, other = [await one.browsers.log_in(token, text) for token, text in logins]
    await backend.settle()
    assert [two.browsers.token(cookie) for cookie in (first, second, other)] == [token1, token1, token2]
    assert two.browsers.token("unknown") is None
    assert await two.browsers.find(other) == token2
    assert await two.browsers.find("unknown") is None
    await two.browsers.log_out(first)
    await backend.settle()
    assert [one.browsers.token(cookie) for cookie in (first, second)] == [None, token1]
    one.browsers.forget(token1)
    await backend.settle()
    assert [two.browsers.token(cookie) for cookie in (second, other)] == [None, token2]
    await backend.advance(31 * 24 * 3600)
    assert two.browsers.token(other) is None


@check
async def a_ticket_is_good_for_one_socket(backend: AccessBackend) -> None:
    node = await backend.open()
    token, text = await _added_token(node, backend)
    ticket = await node.tickets.issue(token, "https://page", text)
    await backend.settle()
    assert await node.tickets.redeem("unknown", "https://page") is None
    redeemed = await node.tickets.redeem(ticket, "https://page")
    assert redeemed is not None
    assert (redeemed.token, redeemed.credential) in ((token, text), (token, ""))
    assert await node.tickets.redeem(ticket, "https://page") is None
    stolen = await node.tickets.issue(token, "https://page", text)
    assert await node.tickets.redeem(stolen, "https://elsewhere") is None
    late = await node.tickets.issue(token, None, text)
    await backend.advance(31)
    assert await node.tickets.redeem(late) is None


def _device(number: int, token: str, *, secret: bytes = b"s" * 16) -> PushDevice:
    return PushDevice(
        endpoint=f"https://push.example/{number}",
        browser_key=b"\x04" + b"k" * 64,
        secret=secret,
        token=token,
        events=("waits", "done"),
        created=float(number),
    )


@check
async def a_device_is_known_on_every_gateway_until_its_token_ends(backend: AccessBackend) -> None:
    one, two = await backend.open(), await backend.open()
    phone, laptop, other = _device(1, "t1"), _device(2, "t1"), _device(3, "t2")
    for device in (laptop, phone, other):
        await one.devices.add(device)
    await backend.settle()
    assert two.devices.all() == [phone, laptop, other]
    assert two.devices.find(phone.id) == phone
    assert phone.endpoint not in repr(phone)
    await two.devices.remove(laptop.id)
    await two.devices.remove("unknown")
    two.devices.forget("t2")
    await backend.settle()
    assert one.devices.all() == [phone]
    assert one.devices.find(laptop.id) is None


@check
async def an_endpoint_is_taken_over_only_with_its_secret(backend: AccessBackend) -> None:
    node = await backend.open()
    await node.devices.add(_device(1, "t1"))
    await backend.settle()
    with pytest.raises(RequestRefused, match="another secret"):
        await node.devices.add(_device(1, "thief", secret=b"t" * 16))
    await node.devices.add(_device(1, "t2"))
    await backend.settle()
    assert [device.token for device in node.devices.all()] == ["t2"]


@check
async def a_token_has_a_bounded_number_of_devices(backend: AccessBackend) -> None:
    node = await backend.open()
    await node.devices.add(_device(0, "t2"))
    for number in range(1, MAX_DEVICES + 3):
        await node.devices.add(_device(number, "t1"))
    await node.devices.add(_device(MAX_DEVICES, "t1"))
    assert [device.created for device in node.devices.all()] == [0, *range(3, MAX_DEVICES + 3)]


@check
async def all_gateways_sign_with_one_secret(backend: AccessBackend) -> None:
    one, two = await backend.open(), await backend.open()
    secret = await one.devices.server_secret(lambda: b"1" * 32)
    assert secret == await two.devices.server_secret(lambda: b"2" * 32) == b"1" * 32
    await two.devices.remove("server-key")
    assert two.devices.all() == []
    assert await two.devices.server_secret(lambda: b"3" * 32) == secret


@check
async def a_share_link_keeps_its_session_and_ends_with_the_token_that_made_it(backend: AccessBackend) -> None:
    one, two = await backend.open(), await backend.open()
    parent, _ = new_token("laptop", now=backend.now())
    shared, text = new_token("", now=backend.now(), read_only=True, session="s1", parent=parent.id)
    await one.tokens.add(parent)
    await one.tokens.add(shared)
    await backend.settle()
    found = two.tokens.find(text)
    assert found == shared
    assert found is not None
    assert found.rights().session == "s1"
    await one.tokens.remove(parent.id)
    await backend.settle()
    assert two.tokens.find(text) is None
    assert not two.tokens.is_valid(shared.id)
