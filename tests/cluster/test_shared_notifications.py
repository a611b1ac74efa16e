"""Notifications of several nodes: a device that subscribed at one hears of the sessions of all, once."""

import asyncio
from pathlib import Path

import pytest
from tests.certificates import new_certificate
from tests.cluster.nats_servers import RunningServer
from tests.cluster.test_many_nodes import ASK, RunningNode, running_node
from tests.gateway.gateway_harness import open_session
from tests.gateway.notifications.receiver import (
    PushBrowser,
    Receiver,
    checked_claims,
    running_receiver,
)

from accord.clock import SYSTEM_CLOCK
from accord.gateway.notifications.notification_settings import NotificationSettings
from accord.gateway.notifications.notifier import Notifier
from accord.gateway.notifications.web_push import ServerKey, to_base64


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACCORD_HOME", str(tmp_path / "home"))


def _notifier(running: RunningNode, receiver: Receiver) -> Notifier:
    access = running.node.access
    assert access is not None
    gateway = running.harness.gateway
    gateway.notifier = Notifier(
        NotificationSettings(delay=0, allow_hosts=("127.0.0.1",)),
        access.devices,
        access.tokens,
        gateway.overview.count_pending,
        clock=SYSTEM_CLOCK,
        tls=receiver.trusted,
    )
    return gateway.notifier


async def test_each_event_is_sent_once_by_the_node_of_the_session(
    server: RunningServer, tmp_path: Path
) -> None:
    settings = server.settings()
    async with (
        running_receiver(new_certificate(tmp_path)) as receiver,
        running_node(settings, tmp_path, "a") as a,
        running_node(settings, tmp_path, "b") as b,
    ):
        at_a, at_b = _notifier(a, receiver), _notifier(b, receiver)
        secret = await at_b.server_secret()
        browser = PushBrowser(receiver.url)
        assert b.node.access is not None
        assert a.node.access is not None
        await b.node.access.devices.add(browser.device(b.harness.rights.token))
        await a.node.access.devices.refresh()

        client = await a.harness.client()
        await open_session(a.harness, client, tmp_path)
        watcher = await b.harness.client()
        await watcher.call("_accord/inbox", {"subscribe": True})
        turn = client.prompt("s1")
        prompt = await a.harness.agent.until_method("session/prompt")
        asked = a.harness.agent.ask("session/request_permission", {"sessionId": "s1", **ASK})
        added = (await watcher.until_method("_accord/inbox"))["params"]["added"]
        push = await receiver.next()
        assert browser.decrypt(push.body) == {
            "kind": "permission_requested",
            "pending": 1,
            "route": f"#/inbox/{added['id']}",
        }
        assert checked_claims(push.headers["authorization"])["key"] == to_base64(ServerKey(secret).public)

        choice = {"outcome": {"outcome": "selected", "optionId": "yes"}}
        await watcher.call("_accord/inbox/answer", {"id": added["id"], "result": choice})
        await a.harness.agent.answer_to(asked)
        a.harness.agent.reply(prompt, {"stopReason": "end_turn"})
        await client.answer_to(turn)
        assert browser.decrypt((await receiver.next()).body)["kind"] == "turn_ended"
        await asyncio.gather(at_a.aclose(), at_b.aclose())
        assert receiver.received.empty()
