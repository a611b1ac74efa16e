"""`accord cluster` and `accord serve token` with the servers of serve.json, as a user types them."""

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.cluster.nats_servers import RunningServer, jetstream_of

from accord.cli import main
from accord.cluster.cluster_node import run_node
from accord.cluster.settings import ClusterSettings


@pytest.fixture
def settings(server: RunningServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ClusterSettings:
    """The settings of a cluster that no other test uses; serve.json has them."""
    monkeypatch.setenv("ACCORD_HOME", str(tmp_path / "home"))
    settings = server.settings(node="b1", monitors=(), labels={"zone": "a"})
    file = tmp_path / "home" / "config" / "serve.json"
    file.parent.mkdir(parents=True)
    file.write_bytes(msgspec.json.encode({"cluster": settings}))
    return settings


def test_tokens_are_those_of_the_cluster(
    settings: ClusterSettings, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["serve", "token", "new", "--name", "phone", "--plain"]) == 0
    text = capsys.readouterr().out.strip()
    assert main(["serve", "token", "list", "--json"]) == 0
    listed: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    assert [(token["name"], token["lastUsed"]) for token in listed] == [("phone", None)]
    assert not (tmp_path / "home" / "data" / "gateway" / "tokens").exists()

    async def find() -> bool:
        async with run_node(settings, ["a"]) as node:
            assert node.access is not None
            return node.access.tokens.find(text) is not None

    assert asyncio.run(find())
    assert main(["serve", "token", "revoke", "phone"]) == 0
    assert not asyncio.run(find())
    assert main(["serve", "token", "revoke", "phone"]) == 2
    assert "unknown token id 'phone'" in capsys.readouterr().err


def test_status_and_check_show_nodes_and_what_is_wrong(
    settings: ClusterSettings, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["cluster", "status"]) == 2
    assert f"there is no cluster with the prefix '{settings.prefix}'" in capsys.readouterr().err

    async def use() -> None:
        async with run_node(settings, ["claude"]) as node:
            node.book.open_log("claude", "s1", "/project", new=True)
            assert node.unready == ""
            values = {metric.name: metric.value for metric in node.metrics()}
            assert values["accord_cluster_sessions"] == 1
            assert values['accord_cluster_append_retries_total{code="unavailable"}'] == 0
            await node.book.aclose()
            assert await asyncio.to_thread(main, ["cluster", "status"]) == 0
            status = capsys.readouterr().out
            assert "1 node, 1 session." in status
            assert "zone=a" in status
            assert "b1    alive  0 s ago  1         claude" in status
            name = f"{settings.prefix.upper()}_LOG_00"
            async with jetstream_of(settings) as jetstream:
                config = msgspec.json.decode(await jetstream.api(f"STREAM.INFO.{name}"))["config"]
                await jetstream.api(f"STREAM.UPDATE.{name}", {**config, "discard": "old"})
            assert await asyncio.to_thread(main, ["cluster", "check"]) == 1
            found = capsys.readouterr().out.splitlines()
            assert found[0].startswith(f"- stream {name} would drop old records when it is full")
            assert found[1] == "- One NATS server keeps each record: a lost disk loses sessions."
            assert found[2].startswith("- Cannot check sync_interval")

    asyncio.run(use())
    assert main(["cluster", "status", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["nodes"] == []
    assert report["sessions"] == 1


def test_a_machine_without_servers_is_one_clear_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ACCORD_HOME", str(tmp_path))
    assert main(["cluster", "check"]) == 2
    assert "no NATS servers are named; pass --cluster URL" in capsys.readouterr().err
