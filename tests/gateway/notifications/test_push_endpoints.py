"""The endpoints of Web Push: who may subscribe what, and what is refused."""

import base64
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest
from tests.gateway.http.http_client import http_client
from tests.gateway.http.http_harness import HttpHarness, http_harness
from tests.gateway.notifications.receiver import PushBrowser, Receiver, checked_claims

from accord.gateway.access.access_tokens import TokenStore
from accord.gateway.access.audit_log import AuditLog
from accord.gateway.access.authentication import Authenticator
from accord.gateway.access.push_devices import FilePushDevices
from accord.gateway.notifications import notifier as notifier_module
from accord.gateway.notifications.notification_settings import NotificationSettings
from accord.gateway.notifications.notifier import Notifier
from accord.testing import FakeClock


class PushServer(NamedTuple):
    """An HTTP server with a notifier, and a client of it with the token of the harness."""

    harness: HttpHarness
    client: httpx2.AsyncClient
    devices: FilePushDevices

    async def post(self, path: str, body: Any, **headers: str) -> httpx2.Response:
        return await self.client.post(path, json=body, headers=headers)


@asynccontextmanager
async def push_server(
    receiver: Receiver, version: int = 1, allow_hosts: tuple[str, ...] = ("127.0.0.1",)
) -> AsyncGenerator[PushServer]:
    devices = FilePushDevices()

    def new_notifier(auth: Authenticator) -> Notifier:
        settings = NotificationSettings(allow_hosts=allow_hosts)
        assert isinstance(auth.tokens, TokenStore)
        return Notifier(
            settings, devices, auth.tokens, lambda rights: 3, clock=FakeClock(), tls=receiver.trusted
        )

    async with http_harness(new_notifier=new_notifier) as harness, http_client(harness, version) as client:
        yield PushServer(harness, client, devices)


@pytest.mark.parametrize("version", [1, 2])
async def test_a_browser_subscribes_tests_changes_its_choice_and_unsubscribes(
    receiver: Receiver, version: int, tmp_path: Path
) -> None:
    browser = PushBrowser(receiver.url)
    async with push_server(receiver, version) as server:
        audit = server.harness.auth.audit = AuditLog(tmp_path / "audit.jsonl")
        key = (await server.client.get("/api/push/key")).json()["key"]
        assert (await server.post("/api/push", browser.subscription("waits", "done"))).status_code == 200
        (device,) = server.devices.all()
        assert (device.token, device.events) == (server.harness.token.id, ("waits", "done"))

        endpoint = {"endpoint": browser.endpoint}
        assert (await server.post("/api/push/test", endpoint)).status_code == 204
        push = await receiver.next()
        assert browser.decrypt(push.body) == {"kind": "test", "pending": 3, "route": "#/"}
        assert checked_claims(push.headers["authorization"])["key"] == key

        await server.post("/api/push", browser.subscription("done"))
        assert [device.events for device in server.devices.all()] == [("done",)]
        renewed = PushBrowser(receiver.url, "renewed")
        await server.post("/api/push", {**renewed.subscription("done"), "previous": browser.endpoint})
        assert [device.endpoint for device in server.devices.all()] == [renewed.endpoint]
        assert (await server.post("/api/push/test", endpoint)).status_code == 404
        assert (await server.post("/api/push/remove", {"endpoint": renewed.endpoint})).status_code == 204
        assert server.devices.all() == []
        events = audit.path.read_text()
        assert events.count('"notifications on"') == 3
        assert events.count('"notifications off"') == 1
        assert browser.endpoint not in events


async def test_without_a_token_or_with_another_one_nothing_can_be_done(receiver: Receiver) -> None:
    browser = PushBrowser(receiver.url)
    async with push_server(receiver) as server:
        await server.post("/api/push", browser.subscription("done"))
        other = {"Authorization": f"Bearer {server.harness.other}"}
        endpoint = {"endpoint": browser.endpoint}
        assert (await server.post("/api/push/test", endpoint, **other)).status_code == 404
        assert (await server.post("/api/push/remove", endpoint, **other)).status_code == 204
        stolen = browser.subscription("waits")
        stolen["keys"]["auth"] = base64.urlsafe_b64encode(b"another secret 1").decode()
        assert (await server.post("/api/push", stolen, **other)).status_code == 409
        assert [device.events for device in server.devices.all()] == [("done",)]
        async with httpx2.AsyncClient(base_url=server.harness.url) as stranger:
            for path in ("/api/push", "/api/push/test", "/api/push/remove"):
                assert (await stranger.post(path, json=endpoint)).status_code == 401
            assert (await stranger.get("/api/push/key")).status_code == 401
    assert receiver.received.empty()


async def test_a_share_link_cannot_subscribe(receiver: Receiver) -> None:
    async with push_server(receiver) as server:
        _, text = server.harness.tokens.new("guest", agents=["known"], session="s1", read_only=True)
        answer = await server.post(
            "/api/push",
            PushBrowser(receiver.url).subscription("done"),
            Authorization=f"Bearer {text}",
        )
        assert (answer.status_code, server.devices.all()) == (403, [])


async def test_a_foreign_page_cannot_subscribe(receiver: Receiver) -> None:
    browser = PushBrowser(receiver.url)
    async with push_server(receiver) as server:
        answer = await server.post("/api/push", browser.subscription("done"), Origin="https://evil.example")
        assert answer.status_code == 403
        assert server.devices.all() == []


def _changed(**changes: Any) -> dict[str, Any]:
    return {**PushBrowser("https://push.example").subscription("done"), **changes}


_KEYS = PushBrowser("https://push.example").subscription()["keys"]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (_changed(endpoint="http://push.example/x"), "cannot be used"),
        (_changed(endpoint="https://127.0.0.1/x"), "this machine"),
        (_changed(endpoint="https://localhost/x"), "this machine"),
        (_changed(endpoint="https://[::ffff:10.0.0.1]/x"), "a private address"),
        (_changed(endpoint="https://user:pass@push.example/x"), "user name"),
        (_changed(endpoint="https://push.example/ x"), "cannot be used"),
        (_changed(endpoint="https://push.example/" + "x" * 2048), "not as expected"),
        (_changed(endpoint="file:///etc/passwd"), "cannot be used"),
        (_changed(keys={**_KEYS, "p256dh": _KEYS["auth"]}), "P-256"),
        (_changed(keys={**_KEYS, "auth": "AAAA"}), "cannot be used"),
        (_changed(keys={**_KEYS, "auth": "a"}), "base64url"),
        (_changed(events=["everything"]), "not as expected"),
        ([], "not as expected"),
        ({"endpoint": "x" * 10_000}, "larger than 8192 bytes"),
    ],
)
async def test_a_subscription_that_cannot_be_used_is_refused(
    receiver: Receiver, body: Any, reason: str
) -> None:
    async with push_server(receiver, allow_hosts=()) as server:
        answer = await server.post("/api/push", body)
        assert answer.status_code in (400, 413)
        assert reason in answer.text
        assert server.devices.all() == []


async def test_tests_are_limited_and_say_why_they_failed(receiver: Receiver) -> None:
    browser = PushBrowser(receiver.url)
    async with push_server(receiver) as server:
        await server.post("/api/push", browser.subscription("done"))
        receiver.answers.append((403, {}))
        answers = [await server.post("/api/push/test", {"endpoint": browser.endpoint}) for _ in range(6)]
        assert [answer.status_code for answer in answers] == [502, 204, 204, 204, 204, 429]
        assert "status 403" in answers[0].text


async def test_without_the_extra_the_page_is_told_how_to_install_it(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notifier_module, "is_installed", lambda extra: False)
    async with push_server(receiver) as server:
        answer = await server.client.get("/api/push/key")
        assert (answer.status_code, answer.text) == (
            501,
            "Web Push needs the [push] extra, which is not installed: pip install 'accord[push]'.\n",
        )


async def test_files_of_a_newer_version_are_not_used(receiver: Receiver, home: Path) -> None:
    browser = PushBrowser(receiver.url)
    async with push_server(receiver) as server:
        await server.post("/api/push", browser.subscription("done"))
        folder = home / "data" / "gateway" / "push"
        for file in folder.iterdir():
            assert file.stat().st_mode & 0o777 == 0o600
            file.write_text(file.read_text().replace('"version":1', '"version":99'))
        assert server.devices.all() == []
        answer = await server.client.get("/api/push/key")
        assert answer.status_code == 503
        assert "newer Accord" in answer.text
