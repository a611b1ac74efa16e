"""Who is told what, when, and what happens when a push service, a topic or a webhook does not accept it."""

import asyncio
import base64
import hashlib
import hmac
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from tests.gateway.gateway_harness import DrivenClient, GatewayHarness, gateway_harness, open_session
from tests.gateway.notifications.receiver import PushBrowser, Receiver, checked_claims

from accord.clock import SYSTEM_CLOCK, Clock
from accord.errors import BadSettings, UsageError
from accord.gateway.access.access_tokens import TokenStore
from accord.gateway.access.audit_log import AuditLog
from accord.gateway.access.push_devices import FilePushDevices
from accord.gateway.notifications.notification_settings import (
    NotificationSettings,
    NtfySettings,
    WebhookSettings,
)
from accord.gateway.notifications.notification_targets import sign, webhook_secret
from accord.gateway.notifications.notifier import Notifier
from accord.testing import FakeClock

ASK = {
    "toolCall": {"toolCallId": "c1", "title": "Touch the secret plan"},
    "options": [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}],
}


class Notifications(NamedTuple):
    """A gateway with a session `s1` and its notifier."""

    harness: GatewayHarness
    client: DrivenClient
    notifier: Notifier
    tokens: TokenStore
    devices: FilePushDevices

    def new_token(self, **rights: Any) -> str:
        return self.tokens.new("phone", **rights)[0].id

    async def ask(self) -> int:
        """Begin a turn whose agent asks for permission; return the id of its request."""
        self.client.prompt("s1", "the secret prompt")
        await self.harness.agent.until_method("session/prompt")
        id = self.harness.agent.ask("session/request_permission", {"sessionId": "s1", **ASK})
        await self.client.until_method("session/request_permission")
        return id

    async def cancel(self) -> None:
        """Cancel the turn, and let the agent end it."""
        self.client.notify("session/cancel", {"sessionId": "s1"})
        await self.harness.agent.until_method("session/cancel")
        prompt = [m for m in self.harness.agent.received if m.get("method") == "session/prompt"][-1]
        self.harness.agent.reply(prompt, {"stopReason": "cancelled"})
        await self.client.until(lambda message: "stopReason" in message.get("result", {}))

    async def run_turn(self, **result: Any) -> None:
        turn = self.client.prompt("s1", "the secret prompt")
        prompt = await self.harness.agent.until_method("session/prompt")
        self.harness.agent.reply(prompt, {"stopReason": "end_turn", **result})
        await self.client.answer_to(turn)


@asynccontextmanager
async def notifications(
    receiver: Receiver,
    folder: Path,
    settings: NotificationSettings | None = None,
    *,
    clock: Clock = SYSTEM_CLOCK,
    folders: tuple[str, ...] | None = None,
) -> AsyncGenerator[Notifications]:
    if settings is None:
        settings = NotificationSettings(delay=0, allow_hosts=("127.0.0.1",))
    tokens, devices = TokenStore(), FilePushDevices()
    async with gateway_harness(audit=AuditLog(folder / "audit.jsonl")) as harness:
        notifier = harness.gateway.notifier = Notifier(
            settings,
            devices,
            tokens,
            harness.gateway.overview.count_pending,
            clock=clock,
            folders=folders,
            retry_seconds=(0.0, 0.0),
            tls=receiver.trusted,
        )
        notifier.link = "https://agents.example.org"
        try:
            client = await harness.client()
            await open_session(harness, client, folder)
            yield Notifications(harness, client, notifier, tokens, devices)
        finally:
            await notifier.aclose()


async def test_a_question_and_an_end_are_pushed_without_content(receiver: Receiver, tmp_path: Path) -> None:
    browser = PushBrowser(receiver.url)
    async with notifications(receiver, tmp_path) as setup:
        await setup.devices.add(browser.device(setup.new_token()))
        asked = await setup.ask()
        push = await receiver.next()
        inbox_id = await setup.client.inbox_id()
        message = browser.decrypt(push.body)
        assert message == {"kind": "permission_requested", "pending": 1, "route": f"#/inbox/{inbox_id}"}
        claims = checked_claims(push.headers["authorization"])
        assert claims["aud"] == receiver.url
        assert claims["sub"] == "https://agents.example.org"
        assert {name: push.headers[name] for name in ("ttl", "urgency", "content-encoding")} == {
            "ttl": str(12 * 3600),
            "urgency": "high",
            "content-encoding": "aes128gcm",
        }
        assert len(push.headers["topic"]) == 32
        await setup.client.call(
            "_accord/inbox/answer",
            {"id": inbox_id, "result": {"outcome": {"outcome": "selected", "optionId": "yes"}}},
        )
        await setup.harness.agent.answer_to(asked)
        prompt = next(m for m in setup.harness.agent.received if m.get("method") == "session/prompt")
        setup.harness.agent.reply(prompt, {"stopReason": "end_turn"})
        done = await receiver.next()
        assert browser.decrypt(done.body) == {
            "kind": "turn_ended",
            "pending": 0,
            "route": "#/session/hand/s1",
        }
        assert done.headers["urgency"] == "normal"
        assert done.headers["topic"] == push.headers["topic"]
        assert len(done.body) == len(push.body)


async def test_each_device_gets_what_it_chose_and_its_token_may_see(
    receiver: Receiver, tmp_path: Path
) -> None:
    async with notifications(receiver, tmp_path) as setup:
        tokens = {
            "all": setup.new_token(),
            "watcher": setup.new_token(read_only=True),
            "elsewhere": setup.new_token(folders=["/nowhere"]),
            "other-agent": setup.new_token(agents=["claude"]),
            "shared": setup.new_token(read_only=True, session="s2"),
        }
        for name, token in tokens.items():
            await setup.devices.add(PushBrowser(receiver.url, name).device(token))
        await setup.devices.add(PushBrowser(receiver.url, "questions").device(tokens["all"], ("waits",)))
        await setup.devices.add(PushBrowser(receiver.url, "silent").device(tokens["all"], ()))
        await setup.run_turn()
        first = {(await receiver.next()).path for _ in range(2)}
        assert first == {"/push/all", "/push/watcher"}
        await setup.ask()
        second = {(await receiver.next()).path for _ in range(2)}
        assert second == {"/push/all", "/push/questions"}


async def test_a_question_that_is_answered_at_once_is_not_sent(receiver: Receiver, tmp_path: Path) -> None:
    clock = FakeClock()
    settings = NotificationSettings(delay=2, allow_hosts=("127.0.0.1",))
    browser = PushBrowser(receiver.url)
    async with notifications(receiver, tmp_path, settings, clock=clock) as setup:
        await setup.devices.add(browser.device(setup.new_token(), ("waits",)))
        await setup.ask()
        await clock.advance(1.9)
        await setup.cancel()
        await clock.advance(5)
        await setup.ask()
        inbox_id = await setup.client.inbox_id()
        await clock.advance(2)
        push = await receiver.next()
        assert browser.decrypt(push.body)["route"] == f"#/inbox/{inbox_id}"
        assert receiver.received.empty()


async def test_a_turn_that_the_user_canceled_is_not_done(receiver: Receiver, tmp_path: Path) -> None:
    browser = PushBrowser(receiver.url)
    async with notifications(receiver, tmp_path) as setup:
        await setup.devices.add(browser.device(setup.new_token()))
        await setup.run_turn(stopReason="cancelled")
        turn = setup.client.prompt("s1", "go")
        prompt = await setup.harness.agent.until_method("session/prompt")
        setup.harness.agent.refuse(prompt, -32603, "the model is gone")
        await setup.client.answer_to(turn)
        assert browser.decrypt((await receiver.next()).body)["kind"] == "turn_failed"
        assert receiver.received.empty()


async def test_the_devices_of_an_ended_token_get_nothing_and_are_removed(
    receiver: Receiver, tmp_path: Path
) -> None:
    async with notifications(receiver, tmp_path) as setup:
        revoked, valid = setup.new_token(), setup.new_token()
        old = PushBrowser(receiver.url, "old").device(revoked)
        await setup.devices.add(msgspec.structs.replace(old, created=1000.0))
        await setup.devices.add(PushBrowser(receiver.url, "new").device(valid))
        setup.tokens.revoke(revoked)
        await setup.run_turn()
        assert (await receiver.next()).path == "/push/new"
        assert [device.token for device in setup.devices.all()] == [valid]


@pytest.mark.parametrize("status", [404, 410])
async def test_a_subscription_that_is_gone_is_removed(
    receiver: Receiver, tmp_path: Path, status: int
) -> None:
    async with notifications(receiver, tmp_path) as setup:
        await setup.devices.add(PushBrowser(receiver.url).device(setup.new_token()))
        receiver.answers.append((status, {}))
        await setup.run_turn()
        await receiver.next()
        while setup.devices.all():  # noqa: ASYNC110 - a file is removed
            await asyncio.sleep(0)


async def test_a_temporary_failure_is_tried_again_and_a_refusal_is_not(
    receiver: Receiver, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with notifications(receiver, tmp_path) as setup:
        await setup.devices.add(PushBrowser(receiver.url).device(setup.new_token()))
        receiver.answers.extend([(503, {}), (429, {"retry-after": "0"}), (201, {})])
        await setup.run_turn()
        bodies = {(await receiver.next()).body for _ in range(3)}
        assert len(bodies) == 3, "each try is encrypted anew"
        receiver.answers.append((403, {}))
        await setup.run_turn()
        await receiver.next()
        await setup.run_turn()
        await receiver.next()
        assert receiver.received.empty()
    assert [record.message for record in caplog.records if "not notified" in record.message] == [
        f"push service {receiver.url} was not notified: status 403"
    ]


async def test_private_addresses_are_called_only_if_the_settings_allow_them(
    receiver: Receiver, tmp_path: Path
) -> None:
    async with notifications(receiver, tmp_path, NotificationSettings(delay=0)) as setup:
        device = PushBrowser(receiver.url).device(setup.new_token())
        assert "127.0.0.1 is this machine" in await setup.notifier.send_test(device)
        assert receiver.received.empty()


async def test_an_ntfy_topic_gets_a_link_and_no_content(receiver: Receiver, tmp_path: Path) -> None:
    token_file = tmp_path / "ntfy-token"
    token_file.write_text("tk_secret\n")
    settings = NotificationSettings(
        delay=0,
        allow_hosts=("127.0.0.1",),
        ntfy=(
            NtfySettings(url=f"{receiver.url}/plain", events=("waits",)),
            NtfySettings(url=f"{receiver.url}/open", token_file=str(token_file), content=True),
        ),
    )
    async with notifications(receiver, tmp_path, settings) as setup:
        await setup.ask()
        requests = [await receiver.next() for _ in range(2)]
        sent = {request.json["topic"]: (request.json, request.headers) for request in requests}
        inbox_id = await setup.client.inbox_id()
        assert sent["plain"][0] == {
            "topic": "plain",
            "title": "Accord",
            "message": "A session asks for permission.",
            "tags": ["bell"],
            "priority": 4,
            "click": f"https://agents.example.org/#/inbox/{inbox_id}",
        }
        assert "authorization" not in sent["plain"][1]
        assert sent["open"][0]["title"] == "the secret prompt"
        assert sent["open"][0]["message"] == "A session asks for permission. Touch the secret plan"
        assert sent["open"][1]["authorization"] == "Bearer tk_secret"


async def test_a_webhook_is_signed_with_its_time_and_tried_again(
    receiver: Receiver, tmp_path: Path, home: Path
) -> None:
    settings = NotificationSettings(
        delay=0, allow_hosts=("127.0.0.1",), webhooks=(WebhookSettings(url=f"{receiver.url}/hook?a=1"),)
    )
    receiver.answers.append((500, {}))
    async with notifications(receiver, tmp_path, settings) as setup:
        await setup.run_turn()
        failed, sent = await receiver.next(), await receiver.next()
    assert sent.path == "/hook?a=1"
    event = sent.json
    assert event == failed.json
    assert set(event) == {"version", "id", "event", "at", "agent", "sessionId", "url"}
    assert (event["event"], event["sessionId"]) == ("turn_ended", "s1")
    assert event["url"] == "https://agents.example.org/#/session/hand/s1"
    assert b"secret" not in sent.body
    secret = (home / "data" / "gateway" / "webhook-secret").read_text().strip()
    key = base64.b64decode(secret.removeprefix("whsec_"))
    id, timestamp = sent.headers["webhook-id"], sent.headers["webhook-timestamp"]
    assert id == event["id"]
    digest = hmac.digest(key, f"{id}.{timestamp}.".encode() + sent.body, hashlib.sha256)
    assert sent.headers["webhook-signature"] == f"v1,{base64.b64encode(digest).decode()}"


def test_the_secret_of_webhooks_is_private_and_stays(tmp_path: Path) -> None:
    file = tmp_path / "folder" / "webhook-secret"
    secret = webhook_secret(file)
    assert secret.startswith("whsec_")
    assert file.stat().st_mode & 0o777 == 0o600
    assert webhook_secret(file) == secret
    with pytest.raises(BadSettings, match="whsec_"):
        sign("whsec_short", "id", "0", b"")


async def test_an_answered_question_is_not_tried_again(receiver: Receiver, tmp_path: Path) -> None:
    browser = PushBrowser(receiver.url)
    clock = FakeClock()
    settings = NotificationSettings(delay=0, allow_hosts=("127.0.0.1",))
    async with notifications(receiver, tmp_path, settings, clock=clock) as setup:
        await setup.devices.add(browser.device(setup.new_token()))
        receiver.answers.append((503, {"retry-after": "30"}))
        await setup.ask()
        await clock.advance(0)
        assert browser.decrypt((await receiver.next()).body)["kind"] == "permission_requested"
        await setup.cancel()
        while not clock.waiting:  # noqa: ASYNC110 - the answer arrives by a socket
            await asyncio.sleep(0)
        await clock.advance(30)
        await setup.run_turn()
        assert browser.decrypt((await receiver.next()).body)["kind"] == "turn_ended"
        assert receiver.received.empty()


def test_settings_that_cannot_work_are_refused() -> None:
    for settings, reason in (
        (NotificationSettings(contact="me"), "no address"),
        (NotificationSettings(ntfy=(NtfySettings(url="https://ntfy.sh/"),)), "no topic"),
        (NotificationSettings(ntfy=(NtfySettings(url="ntfy.sh/x"),)), "not an address"),
        (NotificationSettings(webhooks=(WebhookSettings(url="https://x.example", events=()),)), "no events"),
    ):
        with pytest.raises(UsageError, match=reason):
            settings.checked()
    assert NotificationSettings().checked() == NotificationSettings()


@pytest.mark.parametrize(
    ("link", "contact"),
    [
        ("https://home.example.org:8443", "https://home.example.org"),
        ("https://192.168.1.5", "mailto:accord@example.org"),
        ("https://[2001:db8::a]", "mailto:accord@example.org"),
        ("http://home.example.org", "mailto:accord@example.org"),
        (None, "mailto:accord@example.org"),
    ],
)
def test_the_contact_is_the_name_of_the_gateway_if_it_has_one(link: str | None, contact: str) -> None:
    settings = NotificationSettings()
    notifier = Notifier(settings, FilePushDevices(), TokenStore(), lambda rights: 0, clock=FakeClock())
    notifier.link = link
    assert notifier.contact == contact
