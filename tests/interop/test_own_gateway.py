"""Accord's client with Accord's gateway: cut connections, the printed URL, a wrong token."""

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


async def test_event_streams_that_are_cut_repeatedly_lose_and_repeat_nothing(tmp_path: Path) -> None:
    with running_gateway(tmp_path / "home", *COUNTING) as gateway:
        async with breakable_proxy(gateway.port) as wire:
            url = f"http://127.0.0.1:{wire.port}/#token={gateway.token}"
            async with accord.connect(url) as agent:
                session = await agent.new_session(cwd=tmp_path)
                wire.cut_every(100_000)
                text = (await session.ask("count 3000")).text  # fewer messages than the gateway keeps
                assert text == "".join(f"{number} " for number in range(3000))
                assert wire.cuts >= 3


@pytest.mark.parametrize("scheme", ["ws", "http"])
async def test_the_printed_url_works_only_with_its_token(tmp_path: Path, scheme: str) -> None:
    with running_gateway(tmp_path / "home", *COUNTING) as gateway:
        url = f"{scheme}://127.0.0.1:{gateway.port}/"
        async with accord.connect(f"{url}#token={gateway.token}") as agent:
            session = await agent.new_session(cwd=tmp_path)
            assert (await session.ask("count 2")).text == "0 1 "
        for wrong in (url, f"{url}#token={gateway.token}x"):
            with pytest.raises(
                accord.NeverStarted, match=r"the token is missing or wrong \(HTTP 401\)"
            ) as caught:
                async with accord.connect(wrong):
                    pass
            assert gateway.token not in str(caught.value)
