"""`accord serve notify`, and the settings that name topics and webhooks."""

import asyncio
import json
from pathlib import Path

import pytest
from tests.certificates import new_certificate
from tests.gateway.notifications.receiver import PushBrowser, running_receiver

from accord.cli import serve_command
from accord.cli.serve_command import main, read_arguments, read_settings
from accord.cli.serve_process import notification_notes
from accord.errors import UsageError
from accord.gateway.access.access_tokens import TokenStore
from accord.gateway.access.push_devices import FilePushDevices


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ACCORD_HOME", str(tmp_path / "home"))
    (tmp_path / "home" / "config").mkdir(parents=True)
    return tmp_path / "home"


def _write_settings(**notifications: object) -> None:
    serve_command.settings_file().write_text(json.dumps({"notifications": notifications}))


async def test_every_target_is_tested_and_a_failure_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    certificate = new_certificate(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
    async with running_receiver(certificate) as receiver:
        _write_settings(allowHosts=["127.0.0.1"], ntfy=[{"url": f"{receiver.url}/my-topic"}])
        token, _ = TokenStore().new("phone")
        browser = PushBrowser(receiver.url)
        await FilePushDevices().add(browser.device(token.id))
        receiver.answers.extend([(200, {}), (401, {}), (201, {})])
        words = ["notify", "--webhook", f"{receiver.url}/hook"]
        assert await asyncio.to_thread(main, words) == 1
        ntfy, hook, push = [await receiver.next() for _ in range(3)]
    assert ntfy.json["message"] == "Notifications work."
    assert hook.json["event"] == "test"
    assert browser.decrypt(push.body)["kind"] == "test"
    assert capsys.readouterr().out.splitlines() == [
        f"ntfy {receiver.url}: sent",
        f"webhook {receiver.url}: failed: status 401",
        f"browser of token {token.id} (phone) at {receiver.url}: sent",
    ]


def test_with_nothing_to_notify_the_command_says_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["notify"]) == 1
    assert "Turn notifications on in the page" in capsys.readouterr().out


def test_topics_and_webhooks_of_options_are_added_to_those_of_the_file() -> None:
    _write_settings(ntfy=[{"url": "https://ntfy.sh/a", "events": ["waits"]}], contact="mailto:me@example.org")
    words = ["--ntfy", "https://ntfy.sh/b", "--webhook", "https://x.example"]
    settings = read_arguments(words).settings.notifications
    assert [(ntfy.url, ntfy.events) for ntfy in settings.ntfy] == [
        ("https://ntfy.sh/a", ("waits",)),
        ("https://ntfy.sh/b", ("waits", "done")),
    ]
    assert [webhook.url for webhook in settings.webhooks] == ["https://x.example"]
    assert settings.contact == "mailto:me@example.org"


@pytest.mark.parametrize(
    ("notifications", "reason"),
    [
        ({"contact": "me"}, "contact 'me' is no address"),
        ({"ntfy": [{"url": "https://ntfy.sh"}]}, "has no topic"),
        ({"webhooks": [{"url": "ftp://x"}]}, "is not an address"),
        ({"webhooks": [{"url": "https://x", "events": ["all"]}]}, "webhooks"),
        ({"unknown": 1}, "unknown"),
    ],
)
def test_settings_that_cannot_work_are_refused_in_one_line(
    notifications: dict[str, object], reason: str
) -> None:
    _write_settings(**notifications)
    with pytest.raises(UsageError, match=reason):
        read_settings()


def test_revoking_a_token_removes_its_devices(capsys: pytest.CaptureFixture[str]) -> None:
    token, _ = TokenStore().new("phone")
    device = PushBrowser("https://push.example").device(token.id)
    asyncio.run(FilePushDevices().add(device))
    assert main(["token", "revoke", token.id]) == 0
    assert "is revoked" in capsys.readouterr().out
    assert FilePushDevices().all() == []


def test_the_start_says_where_notifications_go_and_shows_no_topic() -> None:
    _write_settings(ntfy=[{"url": "https://ntfy.sh/secret-topic"}], webhooks=[{"url": "https://x.example/y"}])
    to, secret = notification_notes(read_settings().notifications)
    assert to.startswith("Notifications go to ntfy https://ntfy.sh, webhook https://x.example;")
    assert secret.endswith("gateway/webhook-secret")
    assert Path(secret.rpartition(" ")[2]).read_text().startswith("whsec_")
