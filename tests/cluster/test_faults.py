"""Faults between nodes and NATS servers: cut, held and slow connections, clocks that jump, slow readers."""

import asyncio
import re
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.cluster.nats_servers import RunningServer, nats_server
from tests.cluster.test_many_nodes import RunningNode, changed_state, prompt_and_answer, running_node, texts
from tests.gateway.breakable_proxy import BreakableProxy, breakable_proxy
from tests.gateway.gateway_harness import DrivenClient, open_session
from tests.patience import PATIENCE

from accord.cluster.placement import MARKER
from accord.cluster.settings import ClusterSettings, LeaseTimes

TIMES = LeaseTimes(renew=0.5, deadline=3.0, lease=4.0)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACCORD_HOME", str(tmp_path / "home"))


def shared_settings(server: RunningServer, project: Path, **changes: Any) -> ClusterSettings:
    """Nodes that can take sessions of this folder over."""
    project.mkdir(exist_ok=True)
    (project / MARKER).write_text("v1")
    return server.settings(volumes={"team": str(project)}, homes={"hand": "h1"}, **changes)


async def _take_over(b: RunningNode, client: DrivenClient, session: str, lost: RunningNode) -> None:
    """Prompt a session until it goes on at b; its old node may no longer act by then."""
    while True:
        prompted = client.prompt(session)
        resumed = asyncio.ensure_future(b.harness.agent.until_method("session/resume"))
        answered = asyncio.ensure_future(client.answer_to(prompted))
        await asyncio.wait((resumed, answered), return_when=asyncio.FIRST_COMPLETED, timeout=PATIENCE)
        if resumed.done():
            break
        resumed.cancel()
        assert "error" in answered.result()  # the node of the session does not answer; it is not repeated
    assert not lost.node.fence.is_held
    b.harness.agent.reply(resumed.result(), {})
    request = await b.harness.agent.until_method("session/prompt")
    b.harness.agent.say(session, "here")
    b.harness.agent.reply(request, {"stopReason": "end_turn"})
    assert "result" in await asyncio.wait_for(answered, PATIENCE)


FAULTS = {"cut": (), "nothing arrives": ("down",), "nothing leaves": ("up",)}
"""What happens to the connection of a node, by name: cut, or one direction loses everything."""


async def test_the_owner_gives_up_before_another_node_goes_on(
    server: RunningServer, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    project = tmp_path / "project"
    settings = shared_settings(server, project, times=TIMES)

    async def lose(stack: AsyncExitStack, name: str, directions: tuple[str, ...]) -> None:
        proxy = await stack.enter_async_context(breakable_proxy(server.port))
        prefixed = msgspec.structs.replace(settings, prefix=f"{settings.prefix}{name[-1]}{len(name)}")
        through = (f"nats://127.0.0.1:{proxy.port}",)
        b = await stack.enter_async_context(running_node(prefixed, tmp_path, f"b-{len(name)}"))
        a = await stack.enter_async_context(
            running_node(prefixed, tmp_path, f"a-{len(name)}", servers=through)
        )
        owner, client = await a.harness.client(), await b.harness.client()
        await open_session(a.harness, owner, project)
        assert await prompt_and_answer(a, owner, ["one"]) == ["one"]
        await client.load("s1", str(project))
        revived = asyncio.Event()
        with _fault(proxy, directions):
            began = time.monotonic()
            await _take_over(b, client, "s1", a)
            record_property(name, f"{time.monotonic() - began:.1f} s")
        assert (b.node.book.takeovers, b.router.moved_sessions) == (1, 1)
        a.node.fence.on_revived = revived.set
        if not a.node.fence.is_held:
            await asyncio.wait_for(revived.wait(), PATIENCE)
        assert a.node.fence.fenced_count == 1
        reader = await b.harness.client()
        history, _ = await asyncio.wait_for(reader.load("s1", str(project)), PATIENCE)
        assert texts(history)[:2] == ["go", "one"]
        assert texts(history)[-2:] == ["go", "here"]

    async with AsyncExitStack() as stack:
        await asyncio.gather(*(lose(stack, name, directions) for name, directions in FAULTS.items()))


async def test_a_turn_of_a_lost_node_is_shown_as_lost_in_the_lists(
    server: RunningServer, tmp_path: Path
) -> None:
    settings = server.settings(times=LeaseTimes(renew=0.2, deadline=2.0, lease=3.0))

    async def until(state: str) -> None:
        async with asyncio.timeout(PATIENCE):
            while await changed_state(client) != state:
                pass

    async def listed() -> dict[str, Any]:
        asked = client.ask("session/list", {"cwd": str(tmp_path)})
        b.harness.agent.reply(await b.harness.agent.until_method("session/list"), {"sessions": []})
        (info,) = (await client.answer_to(asked))["result"]["sessions"]
        return info["_meta"]["accord"]

    async with breakable_proxy(server.port) as proxy:
        through = (f"nats://127.0.0.1:{proxy.port}",)
        async with (
            running_node(settings, tmp_path, "b") as b,
            running_node(settings, tmp_path, "a", servers=through) as a,
        ):
            owner, client = await a.harness.client(), await b.harness.client()
            await client.call("_accord/sessions", {"subscribe": True})
            await open_session(a.harness, owner, tmp_path)
            owner.prompt("s1")
            await a.harness.agent.until_method("session/prompt")
            await until("running")
            assert await listed() == {"node": "a"}
            give_up, given_up = a.node.fence.on_fenced, asyncio.Event()
            a.node.fence.on_fenced = lambda reason: (give_up(reason), given_up.set())[1]
            with proxy.broken():
                await until("lost")
                assert await listed() == {"node": "a", "nodeLost": True}
                opening = {"sessionId": "s1", "cwd": str(tmp_path), "mcpServers": []}
                refused = (await client.error("session/resume", opening))["message"]
                assert re.fullmatch(
                    "session s1 can only be read now: node a, the only one with its folder "
                    rf"{re.escape(str(tmp_path))}, looks lost \(silent for \d+ s\); start a again",
                    refused,
                )
                await asyncio.wait_for(given_up.wait(), PATIENCE)
            await until("idle")  # the node is back, and has lost its turn
            assert await listed() == {"node": "a"}


def _fault(proxy: BreakableProxy, directions: tuple[str, ...]) -> Any:
    return proxy.holding(*directions) if directions else proxy.broken()


async def test_a_slow_network_delays_and_reorders_nothing(server: RunningServer, tmp_path: Path) -> None:
    settings = server.settings(times=TIMES)
    async with breakable_proxy(server.port) as proxy:
        through = (f"nats://127.0.0.1:{proxy.port}",)
        async with (
            running_node(settings, tmp_path, "a", servers=through) as a,
            running_node(settings, tmp_path, "b", servers=through) as b,
        ):
            owner, client = await a.harness.client(), await b.harness.client()
            await open_session(a.harness, owner, tmp_path)
            await client.load("s1", str(tmp_path))
            proxy.delay = 0.1
            words = [f"{number} " for number in range(300)]
            assert await prompt_and_answer(a, client, words) == words
            assert (a.node.fence.fenced_count, b.node.fence.fenced_count) == (0, 0)


async def test_the_clock_of_the_wall_may_jump(
    server: RunningServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = server.settings(times=LeaseTimes(renew=0.2, deadline=3.0, lease=4.0))
    async with running_node(settings, tmp_path, "a") as a, running_node(settings, tmp_path, "b") as b:
        owner, client = await a.harness.client(), await b.harness.client()
        await open_session(a.harness, owner, tmp_path)
        await client.load("s1", str(tmp_path))
        real, real_ns = time.time, time.time_ns
        for jump in (86_400, -86_400):
            monkeypatch.setattr(time, "time", lambda jump=jump: real() + jump)
            monkeypatch.setattr(time, "time_ns", lambda jump=jump: real_ns() + jump * 1_000_000_000)
            renewed = asyncio.Event()
            a.node.registry.on_change.append(renewed.set)
            await asyncio.wait_for(renewed.wait(), PATIENCE)
            assert await prompt_and_answer(a, client, [f"{jump}"]) == [f"{jump}"]
        assert (a.node.fence.fenced_count, b.node.fence.fenced_count) == (0, 0)
        history, _ = await asyncio.wait_for((await b.harness.client()).load("s1", str(tmp_path)), PATIENCE)
        assert texts(history) == ["go", "86400", "go", "-86400"]


async def test_a_front_that_reads_too_slowly_misses_nothing(tmp_path: Path) -> None:
    with nats_server(tmp_path / "nats", more="max_pending: 12MB") as server:
        settings = server.settings(times=LeaseTimes(renew=0.5, deadline=PATIENCE, lease=PATIENCE * 2))
        async with breakable_proxy(server.port) as proxy:
            through = (f"nats://127.0.0.1:{proxy.port}",)
            async with (
                running_node(settings, tmp_path, "a") as a,
                running_node(settings, tmp_path, "b", servers=through) as b,
            ):
                owner, client = await a.harness.client(), await b.harness.client()
                await open_session(a.harness, owner, tmp_path)
                await client.load("s1", str(tmp_path))
                owner.prompt("s1")
                request = await a.harness.agent.until_method("session/prompt")
                words = [f"{number} ".ljust(300_000, "x") for number in range(100)]
                with proxy.holding("down"):  # until the server cuts the connection off
                    for word in words:
                        a.harness.agent.say("s1", word)
                    a.harness.agent.reply(request, {"stopReason": "end_turn"})
                    for _ in words:
                        await owner.update()
                seen: list[str] = []
                while len(seen) <= len(words):
                    seen += texts([await asyncio.wait_for(client.update(), PATIENCE)])
                assert seen == ["go", *words]
                assert b.node.connection.reconnects > 0
