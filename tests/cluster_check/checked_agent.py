"""The agent of a cluster check: it answers with counted chunks, asks for permission, and writes a history.

A prompt is `NAME? CHUNKS ASKS PAUSE`. Any process of the agent resumes any session. Its only argument is the
folder of the histories.
"""

import asyncio
import os
import sys
from pathlib import Path

import accord
from accord.errors import NotFound
from accord.schema import PermissionOption

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.cluster_check.history import History

agent = accord.Agent("checked", version="1.0")
OPTIONS = [PermissionOption("yes", "Allow", "allow_once"), PermissionOption("no", "Reject", "reject_once")]
FOLDER = Path(sys.argv[1])
DELETED = FOLDER / "deleted"
history = History(FOLDER, f"agent-{os.getpid()}")


@agent.resume_session
async def resume(session: accord.AgentSession) -> None:
    """It remembers only which sessions were deleted."""
    if (DELETED / session.id).exists():
        raise NotFound("the session was deleted")
    history.write("resumed", session=session.id)


@agent.fork_session
async def fork(session: accord.AgentSession, source_id: str) -> None:
    """Nothing to do: it remembers nothing."""
    history.write("forked", session=session.id, source=source_id)


@agent.delete_session
async def delete(session_id: str, call: accord.ClientRequest) -> None:
    DELETED.mkdir(exist_ok=True)
    (DELETED / session_id).touch()
    history.write("deleted", session=session_id)


@agent.prompt
async def reply(turn: accord.Turn) -> None:
    mark, chunks, asks, pause = turn.text.split(" ")
    name, session = mark.removesuffix("?"), turn.session.id
    history.write("prompted", session=session, prompt=name)
    for number in range(int(chunks)):
        await turn.say(f"{name}:{number} ")
        await asyncio.sleep(float(pause))
    for number in range(int(asks)):
        title = f"{name}!{number}"
        async with turn.tool_call(title, kind="edit") as call:
            history.write("asked", session=session, prompt=name, title=title)
            answer = await call.ask_permission(OPTIONS)
            option = None if answer.option is None else answer.option.kind
            history.write("answered", session=session, title=title, option=option, reason=answer.reason)
        await turn.say(f"{name}:{int(chunks) + number} ")
    history.write("ended", session=session, prompt=name, chunks=int(chunks) + int(asks))


if __name__ == "__main__":
    agent.serve()
