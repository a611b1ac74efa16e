"""The network transports, on every event loop, held to the contract of all transports."""

import asyncio

import pytest
from tests.wire.loops import LOOPS
from tests.wire.remote.remotelinks import http_link, websocket_link
from tests.wire.transport_contract import CHECKS, MakeLink

LINKS: dict[str, MakeLink] = {"websocket": websocket_link, "http": http_link}
NOT_OVER_HTTP = {"one_turn_of_sends_arrives_in_few_batches"}
"""One post carries one message, and so does its echo."""


@pytest.mark.parametrize(
    ("link", "check"),
    [(link, check) for link in LINKS for check in CHECKS if link != "http" or check not in NOT_OVER_HTTP],
)
@pytest.mark.parametrize("loop", LOOPS)
def test_contract(loop: str, link: str, check: str):
    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(run(check, LINKS[link]))


async def run(check: str, make_link: MakeLink) -> None:
    await CHECKS[check](make_link)
