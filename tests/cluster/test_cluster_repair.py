"""What operators do when something was lost or is old: rebuild, backup and restore, expire."""

import asyncio
import json
from pathlib import Path

import msgspec
import pytest
from tests.cluster.nats_servers import RunningServer, jetstream_of, nats_server

from accord.cli import main
from accord.cluster.cluster_node import ClusterNode, run_node
from accord.cluster.settings import ClusterSettings
from accord.schema import AgentMessageChunk, SessionInfoUpdate, TextContent
from accord.session import TurnEnded, TurnStarted


def use(settings: ClusterSettings, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make serve.json name these settings."""
    monkeypatch.setenv("ACCORD_HOME", str(home))
    file = home / "config" / "serve.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(msgspec.json.encode({"cluster": settings}))


async def write_sessions(node: ClusterNode, *titles: str) -> None:
    for number, title in enumerate(titles, 1):
        log = node.book.open_log("claude", f"s{number}", "/project", ["/more"], new=True)
        log.append(TurnStarted([TextContent(text="hello")]), SessionInfoUpdate(title=title))
        log.append(AgentMessageChunk(content=TextContent(text=f"answer {number}")), TurnEnded("end_turn"))
        await log.release()


async def listed(settings: ClusterSettings) -> list[tuple[str, str, str | None, tuple[str, ...]]]:
    """The session list of a node that has just started."""
    async with run_node(settings, ["claude"]) as node:
        found = [
            (one.session_id, one.summary.cwd, one.summary.title, one.summary.additional_directories)
            for page in node.book.pages("claude")
            for one in page
        ]
        await node.book.aclose()
        return sorted(found)


async def make_cluster(settings: ClusterSettings, *, killed: str = "") -> None:
    """Three sessions, and the list entry of one whose node was killed before its first record."""
    async with run_node(settings, ["claude"]) as node:
        await write_sessions(node, "First", "Second", "Third")
        if killed:
            log, _ = node.book.new_log("claude", killed, "/project", ())
            await log.register(replaced=None)
        await node.book.aclose()


def test_the_index_is_rebuilt_from_the_logs(
    server: RunningServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = server.settings(node="b1", shards=4)
    use(settings, tmp_path, monkeypatch)
    asyncio.run(make_cluster(settings, killed="s4"))
    before = [one for one in asyncio.run(listed(settings)) if one[0] != "s4"]
    assert [title for _, _, title, _ in before] == ["First", "Second", "Third"]
    assert main(["cluster", "rebuild"]) == 0
    assert "0 written to the session list, 1 removed from it" in capsys.readouterr().out
    assert asyncio.run(listed(settings)) == before

    async def lose_index() -> None:
        async with jetstream_of(settings) as jetstream:
            await jetstream.purge(f"KV_{settings.prefix}_index", f"$KV.{settings.prefix}_index.>")

    asyncio.run(lose_index())
    assert asyncio.run(listed(settings)) == []
    assert main(["cluster", "rebuild"]) == 0
    assert capsys.readouterr().out == (
        "3 session logs read; 3 written to the session list, 0 removed from it.\n"
    )
    assert asyncio.run(listed(settings)) == before
    assert main(["cluster", "rebuild"]) == 0
    assert "0 written to the session list" in capsys.readouterr().out


def test_a_backup_is_restored_at_other_servers(
    server: RunningServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = server.settings(node="b1", shards=2)
    use(settings, tmp_path, monkeypatch)
    asyncio.run(make_cluster(settings))
    assert main(["serve", "token", "new", "--name", "phone", "--plain"]) == 0
    before = asyncio.run(listed(settings))
    backup = tmp_path / "backup"
    capsys.readouterr()
    assert main(["cluster", "backup", str(backup)]) == 0
    assert "streams" in capsys.readouterr().out
    assert main(["cluster", "restore", str(backup)]) == 2
    assert "exists at these servers" in capsys.readouterr().err
    with nats_server(tmp_path / "other") as other:
        restored = msgspec.structs.replace(settings, servers=(other.url,), monitors=(other.monitor,))
        use(restored, tmp_path, monkeypatch)
        assert main(["cluster", "restore", str(backup)]) == 0
        assert "Start the nodes" in capsys.readouterr().out
        assert asyncio.run(listed(restored)) == before
        assert main(["serve", "token", "list", "--json"]) == 0
        assert [token["name"] for token in json.loads(capsys.readouterr().out)] == ["phone"]

        async def goes_on() -> str:
            async with run_node(restored, ["claude"]) as node:
                log = node.book.open_log("claude", "s2", "/project")
                await log.claim()
                reader = log.reader()
                await reader.read_state()
                await node.book.aclose()
                return reader.state.messages[-1].text

        assert asyncio.run(goes_on()) == "answer 2"


def test_old_sessions_are_exported_and_deleted(
    server: RunningServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = server.settings(node="b1")
    use(settings, tmp_path, monkeypatch)
    asyncio.run(make_cluster(settings))
    folder = tmp_path / "old"
    assert main(["cluster", "expire", "--older", "180d", "--to", str(folder)]) == 0
    assert capsys.readouterr().out == "No session was deleted.\n"
    assert len(asyncio.run(listed(settings))) == 3
    monkeypatch.setattr("accord.cli.cluster_command.now_micros", lambda: 4_000_000_000_000_000)

    async def one_is_open() -> None:
        async with run_node(settings, ["claude"]) as node:
            await node.book.open_log("claude", "s2", "/project").claim()
            assert (
                await asyncio.to_thread(main, ["cluster", "expire", "--older", "1d", "--to", str(folder)])
                == 0
            )
            await node.book.aclose()

    asyncio.run(one_is_open())
    output = capsys.readouterr().out
    assert f"2 sessions were exported to {folder} and deleted." in output
    assert "- s2 is open at node b1" in output
    assert [session for session, *_ in asyncio.run(listed(settings))] == ["s2"]
    exported = sorted(json.loads(file.read_text())["title"] for file in folder.glob("*.json"))
    assert exported == ["First", "Third"]
