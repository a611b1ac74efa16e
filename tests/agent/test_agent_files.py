"""Text files of the client: only if offered, and always by absolute path."""

from pathlib import Path

import pytest
from tests.agent.agent_client import STRICT, connected_client, make_agent

from accord.agent import Turn
from accord.errors import BadAnswer, NotFound, NotOffered, UsageError

READ = {"fs": {"readTextFile": True}}
WRITE = {"fs": {"writeTextFile": True}}


@pytest.mark.rule(
    "initialize.missing-client-capability", "file.read-needs-capability", "file.write-needs-capability"
)
@pytest.mark.parametrize(
    "capabilities", [None, {}, {"fs": {}}, {"fs": {"readTextFile": False}}, {"terminal": True}]
)
async def test_no_file_is_requested_from_a_client_that_does_not_offer_files(capabilities: object) -> None:
    async def works(turn: Turn) -> None:
        with pytest.raises(NotOffered, match="read_text_file"):
            await turn.client.read_text_file("a.py")
        with pytest.raises(NotOffered, match="write_text_file"):
            await turn.client.write_text_file("a.py", "x")

    async with connected_client(make_agent(works), capabilities=capabilities) as client:  # type: ignore[arg-type]
        await client.turn(await client.new_session())
    assert client.methods() == []


@pytest.mark.rule("file.read-needs-capability", "file.absolute-paths")
async def test_a_file_is_read_by_its_absolute_path() -> None:
    async def reads(turn: Turn) -> None:
        await turn.say(await turn.client.read_text_file("src/../a.py", line=2, limit=1))
        await turn.say(await turn.client.read_text_file(Path("/etc/hosts")))
        with pytest.raises(NotOffered):
            await turn.client.write_text_file("a.py", "")

    async with connected_client(make_agent(reads), capabilities=READ) as client:
        session = await client.new_session("/home/me/app")
        id = client.prompt(session)
        first = await client.asked("fs/read_text_file")
        client.raw.reply(first, {"content": "second line"})
        second = await client.asked("fs/read_text_file")
        client.raw.reply(second, {"content": "127.0.0.1"})
        await client.turn_of(id)
    assert first["params"] == {"sessionId": session, "path": "/home/me/app/a.py", "line": 2, "limit": 1}
    assert second["params"] == {"sessionId": session, "path": "/etc/hosts"}
    assert [chunk["content"]["text"] for chunk in client.updates_of("agent_message_chunk")] == [
        "second line",
        "127.0.0.1",
    ]


@pytest.mark.rule("file.write-needs-capability", "file.absolute-paths", "file.null-write-result")
@pytest.mark.dialect(103)
@pytest.mark.parametrize("strict", [False, True])
async def test_a_file_is_written_and_a_null_response_is_accepted(strict: bool) -> None:
    async def writes(turn: Turn) -> None:
        await turn.client.write_text_file(Path("new.py"), "x = 1\n")
        await turn.client.write_text_file("new.py", "x = 2\n")

    async with connected_client(
        make_agent(writes), capabilities=WRITE, options=STRICT if strict else None
    ) as client:
        session = await client.new_session("/home/me/app")
        id = client.prompt(session)
        asked = await client.asked("fs/write_text_file")
        client.raw.reply(asked, None)
        client.raw.reply(await client.asked("fs/write_text_file"), {})
        _, result = await client.turn_of(id)
    assert asked["params"] == {"sessionId": session, "path": "/home/me/app/new.py", "content": "x = 1\n"}
    assert result == {"stopReason": "end_turn"}


async def test_file_errors_are_raised_in_the_turn() -> None:
    async def reads(turn: Turn) -> None:
        with pytest.raises(NotFound, match="no such file"):
            await turn.client.read_text_file("gone.py")
        with pytest.raises(BadAnswer, match="fs/read_text_file"):
            await turn.client.read_text_file("odd.py")
        with pytest.raises(UsageError, match="line=0"):
            await turn.client.read_text_file("odd.py", line=0)
        with pytest.raises(UsageError, match="limit=-1"):
            await turn.client.read_text_file("odd.py", limit=-1)

    async with connected_client(make_agent(reads), capabilities=READ) as client:
        id = client.prompt(await client.new_session())
        client.raw.refuse(await client.asked("fs/read_text_file"), -32002, "no such file")
        client.raw.reply(await client.asked("fs/read_text_file"), {"content": 5})
        await client.turn_of(id)
