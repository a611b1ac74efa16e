"""Chains of proxies: a conductor, parts that speak `proxy/successor`, and an agent."""

import asyncio
import shlex
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.patience import PATIENCE

from accord.cli import main
from accord.proxy import Middleware, Proxy
from accord.proxy.chain import ChainLink
from accord.proxy.conductor import Conductor
from accord.testing.raw_peer import RawPeer, raw_pair
from accord.wire.memory_transport import memory_pair
from accord.wire.transport import Transport

INITIALIZE = {"protocolVersion": 2, "info": {"name": "client", "version": "1"}, "_meta": {"a": 1}}


class Chain:
    """A client and an agent with parts between them. `raw` are parts that a test drives."""

    def __init__(self, client: RawPeer, agent: RawPeer, raw: list[RawPeer]) -> None:
        self.client = client
        self.agent = agent
        self.raw = raw


@asynccontextmanager
async def chained(*parts: Middleware | None) -> AsyncGenerator[Chain]:
    """Run a conductor with these parts; None is a part that the test drives."""
    (to_client, client), (to_agent, agent) = raw_pair(), raw_pair()
    transports: list[Transport] = []
    raw: list[RawPeer] = []
    tasks: list[asyncio.Future[Any]] = []
    for part in parts:
        ours, theirs = memory_pair()
        transports.append(ours)
        if part is None:
            raw.append(RawPeer(theirs))
        else:
            link = ChainLink(theirs)
            tasks.append(asyncio.ensure_future(Proxy(link.client, link.agent, [part]).run()))
    tasks.append(asyncio.ensure_future(Conductor(to_client, [*transports, to_agent]).run()))
    try:
        async with asyncio.timeout(PATIENCE):
            yield Chain(client, agent, raw)
            await client.aclose()
            await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()


async def test_messages_pass_two_proxies_unchanged_in_both_directions() -> None:
    async with chained(Middleware(), Middleware()) as chain:
        id = chain.client.ask("initialize", INITIALIZE)
        request = await chain.agent.next("initialize")
        assert request["params"] == INITIALIZE, "the last part gets initialize, with the same version"
        chain.agent.reply(request, {"protocolVersion": 2, "odd": None})
        assert (await chain.client.answer_to(id))["result"] == {"protocolVersion": 2, "odd": None}

        id = chain.client.ask("_vendor/do", {"kind": "_own", "_meta": {"b": 2}}, id="mine")
        request = await chain.agent.next("_vendor/do")
        assert request["params"] == {"kind": "_own", "_meta": {"b": 2}}
        chain.agent.refuse(request, -32050, "not today", data={"c": 3})
        answer = await chain.client.answer_to("mine")
        assert answer["error"] == {"code": -32050, "message": "not today", "data": {"c": 3}}

        chain.agent.notify("session/update", {"sessionId": "s", "update": {"sessionUpdate": "_own"}})
        update = await chain.client.next("session/update")
        assert "id" not in update
        assert update["params"] == {"sessionId": "s", "update": {"sessionUpdate": "_own"}}
        asked = chain.agent.ask("session/request_permission", {"sessionId": "s"})
        question = await chain.client.next("session/request_permission")
        chain.client.reply(question, {"outcome": {"outcome": "cancelled"}})
        assert (await chain.agent.answer_to(asked))["result"] == {"outcome": {"outcome": "cancelled"}}


async def test_a_cancellation_names_the_id_of_each_connection() -> None:
    async with chained(Middleware(), None) as chain:
        id = chain.client.ask("_slow", {}, id="from-the-client")
        request = await chain.raw[0].next("_slow")
        wrapped = chain.raw[0].ask("proxy/successor", {"method": "_slow", "params": {}}, id="own")
        at_agent = await chain.agent.next("_slow")
        chain.client.notify("$/cancel_request", {"requestId": id})
        cancelled = await chain.raw[0].next("$/cancel_request")
        assert cancelled["params"] == {"requestId": request["id"]}
        chain.raw[0].notify("$/cancel_request", {"requestId": wrapped})
        assert (await chain.agent.next("$/cancel_request"))["params"] == {"requestId": at_agent["id"]}
        chain.agent.refuse(at_agent, -32800)
        assert (await chain.raw[0].answer_to(wrapped))["error"]["code"] == -32800
        chain.raw[0].refuse(request, -32800)
        assert (await chain.client.answer_to(id))["error"]["code"] == -32800


async def test_a_part_that_changes_the_version_is_refused() -> None:
    async with chained(None) as chain:
        chain.client.ask("initialize", INITIALIZE)
        request = await chain.raw[0].next("proxy/initialize")
        assert request["params"] == INITIALIZE
        wrapped = {"method": "initialize", "params": {"protocolVersion": 1}}
        answer = await chain.raw[0].answer_to(chain.raw[0].ask("proxy/successor", wrapped))
        assert answer["error"]["code"] == -32602


async def test_an_agent_has_no_successor_and_a_proxy_is_no_agent() -> None:
    async with chained(None) as chain:
        answer = await chain.agent.answer_to(chain.agent.ask("proxy/successor", {"method": "_x"}))
        assert answer["error"]["code"] == -32601
        broken = await chain.raw[0].answer_to(chain.raw[0].ask("proxy/successor", {"params": {}}))
        assert broken["error"]["code"] == -32600
    transport, conductor = raw_pair()
    link = ChainLink(transport)
    running = asyncio.ensure_future(Proxy(link.client, link.agent, [Middleware()]).run())
    answer = await conductor.answer_to(conductor.ask("initialize", INITIALIZE))
    assert answer["error"]["code"] == -32600
    await conductor.aclose()
    await running


async def test_the_end_of_a_part_fails_the_open_requests() -> None:
    async with chained(Middleware()) as chain:
        id = chain.client.ask("_slow", {})
        await chain.agent.next("_slow")
        await chain.agent.aclose()
        assert "has ended" in (await chain.client.answer_to(id))["error"]["message"]


RULES = """
from accord.proxy import Middleware

class Rules(Middleware):
    async def prompt(self, request, call_next):
        request.prompt[0].text = "think: from the proxy"
        return await call_next(request)
"""


def test_the_command_runs_a_chain_of_programs(tmp_path: Path) -> None:
    (tmp_path / "rules.py").write_text(RULES)
    accord = f"{sys.executable} -m accord.cli"
    part = f"{accord} proxy --use {tmp_path}/rules.py:Rules --in-chain"
    agent = [*accord.split(), "agent", "--model", "rehearsal"]
    command = [*accord.split(), "run", "hello", "--", *accord.split(), "proxy", "--part", part, "--", *agent]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=PATIENCE, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert "from the proxy" in done.stdout + done.stderr


def test_a_part_that_ends_is_named() -> None:
    part = shlex.join([sys.executable, "-c", "raise SystemExit(3)"])
    agent = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    command = [sys.executable, "-m", "accord.cli", "proxy", "--part", part, "--", *agent]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as proxy:
        assert proxy.stderr is not None
        assert proxy.wait(PATIENCE) == 1  # stdin is open: the client is still there
        line = proxy.stderr.read()
    assert line.startswith("accord proxy: part 1 of the chain has ended")
    assert "exited with code 3" in line


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ([], "accord proxy: missing middleware; use `accord proxy --use MODULE:NAME -- COMMAND ...`"),
        (["--use", "x:Y", "--part", "z", "--", "a"], "accord proxy: --use and --part"),
        (["--use", "x:Y", "--in-chain", "--", "a"], "accord proxy: --in-chain takes no agent"),
    ],
)
def test_wrong_usage_is_one_line(words: list[str], line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["proxy", *words]) == 2
    assert capsys.readouterr().err.startswith(line)
