"""Accord's client with Accord's gateway over streamable HTTP: a wire that is cut, the link as it is printed, a wrong token."""

import sys
from pathlib import Path

import pytest
from tests.cli.serve.gateway_process import running_gateway
from tests.gateway.breakable_proxy import breakable_proxy

import accord

COUNTING = (
    "--",
    sys.executable,
    str(Path(__file__).parents[1] / "gateway" / "counting_agent.py"),
)


async def test_event_streams_that_are_cut_again_and_again_lose_and_double_nothing(tmp_path: Path) -> None:
    with running_gateway(tmp_path / "home", *COUNTING) as gateway:
        async with breakable_proxy(gateway.port) as wire:
            url = f"http://127.0.0.1:{wire.port}/#token={gateway.token}"
            async with accord.connect(url) as agent:
                session = await agent.new_session(cwd=tmp_path)
                wire.cut_every(100_000)
                said = (await session.ask("count 3000")).text  # fewer than the gateway keeps
                assert said == "".join(f"{number} " for number in range(3000))
                assert wire.cuts >= 3


@pytest.mark.parametrize("scheme", ["ws", "http"])
async def test_the_link_that_is_printed_works_and_without_its_token_nothing_does(
    tmp_path: Path, scheme: str
) -> None:
    with running_gateway(tmp_path / "home", *COUNTING) as gateway:
        place = f"{scheme}://127.0.0.1:{gateway.port}/"
        async with accord.connect(f"{place}#token={gateway.token}") as agent:
            session = await agent.new_session(cwd=tmp_path)
            assert (await session.ask("count 2")).text == "0 1 "
        for wrong in (place, f"{place}#token={gateway.token}x"):
            with pytest.raises(
                accord.NeverStarted, match=r"the token is missing or wrong \(HTTP 401\)"
            ) as caught:
                async with accord.connect(wrong):
                    pass
            assert gateway.token not in str(caught.value)
