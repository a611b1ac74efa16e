"""A folder-bound token cannot name other folders in the parameters of a vendor's methods."""

from pathlib import Path
from typing import Any

import pytest
from tests.gateway.gateway_harness import gateway_harness, open_session
from tests.gateway.test_folder_rights import limited_to

from accord.gateway.access.audit_log import AuditLog

NOT_ALLOWED = -32003


def outside(folder: Path) -> list[dict[str, Any]]:
    """Parameters that name something outside the folder."""
    return [
        {"path": "/etc"},
        {"target": "/etc/passwd"},
        {"folder": "~"},
        {"folder": "~root/x"},
        {"cwd": ".."},
        {"files": ["a.txt", "sub/../../x"]},
        {"uri": "file:///etc/passwd"},
        {"source": "FILE:///etc"},
        {"link": f"file://{folder}/%2e%2e/x"},
        {"options": {"roots": [{"workspacePath": str(folder.parent)}]}},
        {"path": f"{folder}-other"},
        {"path": f"{folder}/../x"},
        {"path": "link"},
        {"target": "../x"},
        {"steps": [{"value": "a/../../x"}]},
        {"_meta": {"vendor": {"dir": "/"}}},
        {"disk": "C:\\Users"},
        {"share": "\\\\server\\share"},
        {"changes": {"/etc/passwd": "root"}},
        {"edits": {"file:///etc/passwd": []}},
        {"files": {"../x": "text"}},
    ]


def inside(folder: Path) -> list[dict[str, Any]]:
    """Parameters that name nothing outside the folder."""
    return [
        {},
        {"path": str(folder)},
        {"path": f"{folder}/a/b.txt", "name": "b"},
        {"file": "a/b.txt"},
        {"uri": f"file://{folder}/a"},
        {"url": "https://example.org/a/../b"},
        {"text": "/help me", "prompt": ["/etc is a folder"]},
        {"files": {"a/b.txt": "text", f"{folder}/c": ""}},
        {"count": 3, "deep": [True, None, {"value": "plain text with / and .."}]},
    ]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "link").symlink_to("/etc")
    return folder


async def test_a_vendor_method_of_a_session_names_only_folders_of_the_token(
    audit: AuditLog, folder: Path
) -> None:
    async with gateway_harness(audit=audit) as harness:
        client = await harness.client(limited_to(folder))
        await open_session(harness, client, folder)
        before = len(harness.agent.received)
        for members in outside(folder):
            params = {"sessionId": "s1", **members}
            error = await client.error("_vendor/open", params)
            assert error["code"] == NOT_ALLOWED, members
            client.notify("_vendor/open", params)
        await client.call("_accord/agents")
        assert harness.agent.received[before:] == []
        for members in inside(folder):
            asked = client.ask("_vendor/open", {"sessionId": "s1", **members})
            request = await harness.agent.until_method("_vendor/open")
            assert request["params"] == {"sessionId": "s1", **members}
            harness.agent.reply(request, {})
            await client.answer_to(asked)


async def test_metadata_of_a_known_method_names_only_folders_of_the_token(
    audit: AuditLog, folder: Path
) -> None:
    async with gateway_harness(audit=audit) as harness:
        client = await harness.client(limited_to(folder))
        await open_session(harness, client, folder)
        prompt = {"sessionId": "s1", "prompt": [{"type": "text", "text": "/etc"}]}
        error = await client.error("session/prompt", {**prompt, "_meta": {"cwd": "/etc"}})
        assert error["code"] == NOT_ALLOWED
        asked = client.ask("session/prompt", {**prompt, "_meta": {"cwd": str(folder)}})
        harness.agent.reply(await harness.agent.until_method("session/prompt"), {"stopReason": "end_turn"})
        assert "result" in await client.answer_to(asked)


async def test_an_unrestricted_token_names_any_folder(audit: AuditLog, folder: Path) -> None:
    async with gateway_harness(audit=audit) as harness:
        client = await harness.client()
        await open_session(harness, client, folder)
        asked = client.ask("_vendor/open", {"sessionId": "s1", "path": "/etc"})
        request = await harness.agent.until_method("_vendor/open")
        assert request["params"]["path"] == "/etc"
        harness.agent.reply(request, {})
        await client.answer_to(asked)
