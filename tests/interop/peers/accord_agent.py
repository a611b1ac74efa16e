"""The scripted agent on accord.agent: the first word of the prompt selects what it does.

The words and their data are in script.json; all scripted agents know the same words. `say` is for the
test sequence of the quick reference.
"""

import asyncio
import hashlib
import json
import os
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import accord
from accord import schema
from accord.schema.codec import read, to_builtins

SCRIPT = json.loads((Path(__file__).parent / "script.json").read_text("utf-8"))


@dataclass
class StoredSession:
    """A stored session."""

    cwd: str
    mode: str = "ask"
    model: str = "small"
    history: list[schema.SessionUpdate] = field(default_factory=list[schema.SessionUpdate])


stored_sessions: dict[str, StoredSession] = {}
agent = accord.Agent(
    SCRIPT["agent"]["name"],
    version=SCRIPT["agent"]["version"],
    accepts=accord.AgentFeatures(image=True, embedded_context=True),
    auth_methods=[read(schema.AuthMethodAgent, SCRIPT["sign_in"])],
)


# -- sessions --


def apply_settings(session: accord.AgentSession, stored: StoredSession) -> None:
    session.data = stored
    session.modes = schema.SessionModeState(
        stored.mode, [read(schema.SessionMode, mode) for mode in SCRIPT["modes"]]
    )
    models = [read(schema.SessionConfigSelectOption, model) for model in SCRIPT["models"]]
    session.config_options = [
        schema.SessionConfigSelect("model", "Model", stored.model, models, category="model")
    ]


@agent.new_session
async def begin(session: accord.AgentSession) -> None:
    stored_sessions[session.id] = StoredSession(session.cwd)
    apply_settings(session, stored_sessions[session.id])
    await session.commands([read(schema.AvailableCommand, command) for command in SCRIPT["commands"]])


def reopen(session: accord.AgentSession) -> StoredSession:
    stored = stored_sessions.get(session.id)
    if stored is None:
        raise accord.unknown_session(session.id)
    apply_settings(session, stored)
    return stored


@agent.load_session
async def load(session: accord.AgentSession) -> None:
    for update in reopen(session).history:
        await session.update(update)


@agent.resume_session
def resume(session: accord.AgentSession) -> None:
    reopen(session)


@agent.list_sessions
def list_sessions(
    request: schema.ListSessionsRequest, call: accord.ClientRequest
) -> schema.ListSessionsResponse:
    """List one session per page, so that clients have to read several pages."""
    found = [
        schema.SessionInfo(id, one.cwd)
        for id, one in stored_sessions.items()
        if request.cwd in (one.cwd, None, schema.UNSET)
    ]
    start = int(request.cursor or 0)
    more = start + 1 < len(found)
    return schema.ListSessionsResponse(found[start : start + 1], str(start + 1) if more else schema.UNSET)


@agent.delete_session
def delete(session_id: str, call: accord.ClientRequest) -> None:
    stored_sessions.pop(session_id, None)


@agent.set_mode
def mode_set(session: accord.AgentSession, mode_id: str) -> None:
    session.data.mode = mode_id


@agent.set_config_option
def option_set(session: accord.AgentSession, config_id: str, value: str | bool) -> None:
    if config_id == "model":
        session.data.model = value


@agent.authenticate
def sign_in(method_id: str, call: accord.ClientRequest) -> None:
    pass


@agent.on("_interop/reverse")
def reverse(params: Any, call: accord.ClientRequest) -> Any:
    return {"text": params["text"][::-1]}


# -- turns --


async def say(turn: accord.Turn, text: str) -> None:
    """Send a text and store it."""
    turn.session.data.history.append(schema.AgentMessageChunk(schema.TextContent(text)))
    await turn.say(text)


async def say_json(turn: accord.Turn, value: Any) -> None:
    """Send a JSON value as text, which the test parses."""
    await say(turn, json.dumps(value))


async def code_of(call: Awaitable[Any]) -> int | None:
    try:
        await call
    except accord.RpcError as error:
        return error.code
    return None


async def text(turn: accord.Turn) -> None:
    print("a stray print, which must not get into the protocol")  # noqa: T201 - stray output on purpose
    await turn.think(SCRIPT["thought"])
    await turn.plan([read(schema.PlanEntry, entry) for entry in SCRIPT["plan"]])
    for piece in SCRIPT["pieces"]:
        await say(turn, piece)
    usage = SCRIPT["usage"]
    await turn.usage(usage["used"], usage["size"], cost=(usage["cost"]["amount"], usage["cost"]["currency"]))
    await turn.title(SCRIPT["title"])


async def tool(turn: accord.Turn) -> None:
    edit = SCRIPT["edit"]
    location = (edit["file"], edit["line"])
    async with turn.tool_call(
        edit["title"], kind="edit", locations=[location], raw_input=edit["input"]
    ) as call:
        await call.start()
        await call.diff(edit["file"], old=edit["old"], new=edit["new"])
        await call.raw_output(edit["output"])


async def permission(turn: accord.Turn) -> None:
    danger = SCRIPT["danger"]
    options = [read(schema.PermissionOption, option) for option in danger["options"]]
    async with turn.tool_call(danger["title"], kind="delete") as call:
        answer = await call.ask_permission(options)
    await say(turn, "allowed" if answer else "rejected")


async def files(turn: accord.Turn) -> None:
    names = SCRIPT["files"]
    client = turn.client
    line = await client.read_text_file(names["read"], line=names["line"], limit=names["limit"])
    await client.write_text_file(names["write"], names["text"])
    written = await client.read_text_file(names["write"])
    missing = await code_of(client.read_text_file(names["missing"]))
    await say_json(turn, {"line": line, "written": written, "missing": missing})


async def terminal(turn: accord.Turn) -> None:
    failing, wordy, endless = (SCRIPT["commands_to_run"][name] for name in ("failing", "wordy", "endless"))
    async with (
        turn.tool_call("Run", kind="execute", start=True) as call,
        turn.terminal(failing["command"], failing["args"], env=failing["env"]) as running,
    ):
        await call.terminal(running)
        status = await running.wait()
        printed = await running.output()
    cut = await turn.run(wordy["command"], wordy["args"], output_byte_limit=wordy["limit"])
    async with turn.terminal(endless["command"], endless["args"]) as running:
        meanwhile = await running.output()
        await running.kill()
        killed = await running.wait()
        at_last = await running.output()
    await say_json(
        turn,
        {
            "exit_code": status.exit_code,
            "output": printed.output,
            "truncated": printed.truncated,
            "exit_code_in_output": printed.exit_status and printed.exit_status.exit_code,
            "cut": [cut.output, cut.truncated],
            "still_running": not meanwhile.exit_status,
            "killed": [killed.exit_code or None, killed.signal or None],
            "over": bool(at_last.exit_status),
        },
    )


async def cancel_me(turn: accord.Turn) -> None:
    async with turn.tool_call("A long job", kind="execute", start=True):
        await say(turn, "waiting")
        await asyncio.Event().wait()


async def mode(turn: accord.Turn) -> None:
    await say(turn, str(turn.session.mode))


async def change_mode(turn: accord.Turn) -> None:
    await turn.set_mode("ask")


async def model(turn: accord.Turn) -> None:
    await say(turn, str(turn.session.option("model")))


async def change_model(turn: accord.Turn) -> None:
    await turn.set_option("model", "small")


async def echo(turn: accord.Turn) -> None:
    await say(turn, turn.text.partition(" ")[2])


async def big(turn: accord.Turn) -> None:
    bulk = turn.blocks[1]
    assert isinstance(bulk, schema.TextContent)
    await say_json(turn, {"length": len(bulk.text), "sha256": hashlib.sha256(bulk.text.encode()).hexdigest()})
    await say(turn, SCRIPT["bulk"] * (len(bulk.text) // len(SCRIPT["bulk"])))


async def blocks(turn: accord.Turn) -> None:
    await say_json(turn, [to_builtins(block) for block in turn.blocks[1:]])
    for block in turn.blocks[1:]:
        await turn.say(block)


async def form(turn: accord.Turn) -> None:
    form_schema = read(schema.ElicitationSchema, {**SCRIPT["form"], "type": "object"})
    answers: list[Any] = []
    for _ in range(2):
        answer = await turn.elicit(SCRIPT["form"]["message"], form_schema)
        answers.append({"action": answer.action, **({"content": answer.content} if answer else {})})
    await say_json(turn, answers)


async def extensions(turn: accord.Turn) -> None:
    answer = await turn.client.request("_interop/reverse", {"text": "abc"})
    unknown = await code_of(turn.client.request("_interop/nope"))
    await say_json(turn, {"reversed": answer["text"], "unknown": unknown})


async def refuse(turn: accord.Turn) -> None:
    raise accord.RpcError(
        SCRIPT["refusal"]["message"], SCRIPT["refusal"]["data"], code=SCRIPT["refusal"]["code"]
    )


async def fail(turn: accord.Turn) -> None:
    raise ValueError("a fault in the agent")


async def crash(turn: accord.Turn) -> None:
    await turn.say("going down")
    await turn.client.request("_interop/reverse", {"text": ""})  # after its response, the text above was sent
    sys.stderr.write(SCRIPT["stderr_text"] + "\n")
    sys.stderr.flush()
    os._exit(SCRIPT["exit_code"])


async def say_hello(turn: accord.Turn) -> None:
    await turn.think("A greeting.")
    async with turn.tool_call("Look up who you are", kind="search") as call:
        answer = await call.ask_permission()
    await turn.say("Hello, friend!" if answer else "Hello, stranger!")


WORDS: dict[str, Callable[[accord.Turn], Awaitable[None]]] = {
    word.__name__.replace("_", "-"): word
    for word in (
        *(text, tool, permission, files, terminal, cancel_me, mode, change_mode, model, change_model),
        *(echo, big, blocks, form, extensions, refuse, fail, crash),
    )
}


@agent.prompt
async def answer(turn: accord.Turn) -> None:
    first = turn.blocks[0]
    assert isinstance(first, schema.TextContent)
    turn.session.data.history.append(schema.UserMessageChunk(first))
    word = first.text.partition(" ")[0]
    await (say_hello if word == "say" else WORDS[word])(turn)


if __name__ == "__main__":
    agent.serve()
