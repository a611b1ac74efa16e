"""The turns of the scripted agent on the official Python SDK: one function per first word of a prompt."""

import asyncio
import hashlib
import json
import os
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import acp
from acp import schema

SCRIPT = json.loads((Path(__file__).parent / "script.json").read_text("utf-8"))


@dataclass
class Session:
    """The stored data of a session."""

    id: str
    cwd: str
    mode: str = "ask"
    model: str = "small"
    open: bool = True
    history: list[Any] = field(default_factory=list)
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def modes(self) -> schema.SessionModeState:
        """The modes as in the session/new response."""
        return schema.SessionModeState(
            current_mode_id=self.mode,
            available_modes=[schema.SessionMode(**mode) for mode in SCRIPT["modes"]],
        )

    @property
    def options(self) -> list[Any]:
        """The config options: one select option."""
        return [
            schema.SessionConfigOptionSelect(
                type="select",
                id="model",
                name="Model",
                category="model",
                current_value=self.model,
                options=[schema.SessionConfigSelectOption(**model) for model in SCRIPT["models"]],
            )
        ]


class Prompt:
    """One turn: its session, its prompt blocks, and the client."""

    def __init__(self, client: acp.Client, session: Session, blocks: list[Any]) -> None:
        self.client = client
        self.session = session
        self.blocks = blocks
        self.word, _, self.rest = blocks[0].text.partition(" ")

    async def send_update(self, update: Any) -> None:
        """Send an update."""
        await self.client.session_update(self.session.id, update)

    async def say(self, text: str) -> None:
        """Send a text and store it."""
        update = acp.update_agent_message_text(text)
        self.session.history.append(update)
        await self.send_update(update)

    async def say_json(self, value: Any) -> None:
        """Send a JSON value as text, which the test parses."""
        await self.say(json.dumps(value))

    def path(self, name: str) -> str:
        """The path of a file in the session's folder."""
        return f"{self.session.cwd}/{name}"


async def text(turn: Prompt) -> None:
    await turn.send_update(acp.update_agent_thought_text(SCRIPT["thought"]))
    await turn.send_update(acp.update_plan([acp.plan_entry(**entry) for entry in SCRIPT["plan"]]))
    for piece in SCRIPT["pieces"]:
        await turn.say(piece)
    await turn.send_update(schema.UsageUpdate(session_update="usage_update", **SCRIPT["usage"]))
    await turn.send_update(
        schema.SessionInfoUpdate(session_update="session_info_update", title=SCRIPT["title"])
    )


async def tool(turn: Prompt) -> None:
    edit = SCRIPT["edit"]
    path = turn.path(edit["file"])
    await turn.send_update(
        acp.start_tool_call(
            "edit-1",
            edit["title"],
            kind="edit",
            status="pending",
            locations=[schema.ToolCallLocation(path=path, line=edit["line"])],
            raw_input=edit["input"],
        )
    )
    await turn.send_update(acp.update_tool_call("edit-1", status="in_progress"))
    diff = acp.tool_diff_content(path, edit["new"], edit["old"])
    await turn.send_update(acp.update_tool_call("edit-1", content=[diff]))
    await turn.send_update(acp.update_tool_call("edit-1", status="completed", raw_output=edit["output"]))


async def permission(turn: Prompt) -> str:
    danger = SCRIPT["danger"]
    await turn.send_update(acp.start_tool_call("danger-1", danger["title"], kind="delete", status="pending"))
    answer = await turn.client.request_permission(
        turn.session.id,
        schema.ToolCallUpdate(tool_call_id="danger-1", title=danger["title"]),
        [schema.PermissionOption.model_validate(option) for option in danger["options"]],
    )
    if isinstance(answer.outcome, schema.DeniedOutcome):
        await turn.send_update(acp.update_tool_call("danger-1", status="failed"))
        return "cancelled" if turn.session.cancelled.is_set() else "end_turn"
    if answer.outcome.option_id == danger["options"][0]["optionId"]:
        await turn.send_update(acp.update_tool_call("danger-1", status="in_progress"))
        await turn.send_update(acp.update_tool_call("danger-1", status="completed"))
        await turn.say("allowed")
    else:
        await turn.send_update(acp.update_tool_call("danger-1", status="failed"))
        await turn.say("rejected")
    return "end_turn"


async def files(turn: Prompt) -> None:
    names = SCRIPT["files"]
    found = await turn.client.read_text_file(
        turn.session.id, turn.path(names["read"]), line=names["line"], limit=names["limit"]
    )
    await turn.client.write_text_file(turn.session.id, turn.path(names["write"]), names["text"])
    written = await turn.client.read_text_file(turn.session.id, turn.path(names["write"]))
    try:
        await turn.client.read_text_file(turn.session.id, turn.path(names["missing"]))
        missing = None
    except acp.RequestError as error:
        missing = error.code
    await turn.say_json({"line": found.content, "written": written.content, "missing": missing})


async def terminal(turn: Prompt) -> None:
    programs = SCRIPT["commands_to_run"]
    session, client = turn.session.id, turn.client

    async def create(name: str) -> str:
        program = programs[name]
        made = await client.create_terminal(
            session,
            program["command"],
            program["args"],
            [schema.EnvVariable(name=key, value=value) for key, value in program.get("env", {}).items()],
            turn.session.cwd,
            program.get("limit"),
        )
        return made.terminal_id

    failing = await create("failing")
    await turn.send_update(
        acp.start_tool_call(
            "run-1", "Run", kind="execute", status="in_progress", content=[acp.tool_terminal_ref(failing)]
        )
    )
    status = await client.wait_for_terminal_exit(session, failing)
    printed = await client.terminal_output(session, failing)
    await client.release_terminal(session, failing)
    await turn.send_update(acp.update_tool_call("run-1", status="completed"))

    wordy = await create("wordy")
    await client.wait_for_terminal_exit(session, wordy)
    cut = await client.terminal_output(session, wordy)
    await client.release_terminal(session, wordy)

    endless = await create("endless")
    running = await client.terminal_output(session, endless)
    await client.kill_terminal(session, endless)
    killed = await client.wait_for_terminal_exit(session, endless)
    at_last = await client.terminal_output(session, endless)
    await client.release_terminal(session, endless)
    await turn.say_json(
        {
            "exit_code": status.exit_code,
            "output": printed.output,
            "truncated": printed.truncated,
            "exit_code_in_output": printed.exit_status and printed.exit_status.exit_code,
            "cut": [cut.output, cut.truncated],
            "still_running": running.exit_status is None,
            "killed": [killed.exit_code, killed.signal],
            "over": at_last.exit_status is not None,
        }
    )


async def cancel_me(turn: Prompt) -> str:
    await turn.send_update(acp.start_tool_call("long-1", "A long job", kind="execute", status="in_progress"))
    await turn.say("waiting")
    await turn.session.cancelled.wait()
    await turn.send_update(acp.update_tool_call("long-1", status="failed"))
    return "cancelled"


async def mode(turn: Prompt) -> None:
    await turn.say(turn.session.mode)


async def change_mode(turn: Prompt) -> None:
    turn.session.mode = "ask"
    await turn.send_update(
        schema.CurrentModeUpdate(session_update="current_mode_update", current_mode_id="ask")
    )


async def model(turn: Prompt) -> None:
    await turn.say(turn.session.model)


async def change_model(turn: Prompt) -> None:
    turn.session.model = "small"
    options = turn.session.options
    await turn.send_update(
        schema.ConfigOptionUpdate(session_update="config_option_update", config_options=options)
    )


async def echo(turn: Prompt) -> None:
    await turn.say(turn.rest)


async def big(turn: Prompt) -> None:
    bulk = turn.blocks[1].text
    await turn.say_json({"length": len(bulk), "sha256": hashlib.sha256(bulk.encode()).hexdigest()})
    await turn.say(SCRIPT["bulk"] * (len(bulk) // len(SCRIPT["bulk"])))


async def blocks(turn: Prompt) -> None:
    await turn.say_json(
        [block.model_dump(mode="json", by_alias=True, exclude_none=True) for block in turn.blocks[1:]]
    )
    for block in turn.blocks[1:]:
        await turn.send_update(acp.update_agent_message(block))


async def form(turn: Prompt) -> None:
    form_data = SCRIPT["form"]
    answers: list[Any] = []
    for _ in range(2):
        answer = await turn.client.create_elicitation(
            form_data["message"],
            schema.ElicitationFormSessionMode(
                session_id=turn.session.id,
                requested_schema=schema.ElicitationSchema.model_validate(
                    {"properties": form_data["properties"], "required": form_data["required"]}
                ),
            ),
        )
        answers.append(answer.model_dump(mode="json", by_alias=True, exclude_none=True))
    await turn.say_json(answers)


async def extensions(turn: Prompt) -> None:
    reversed_ = await turn.client.ext_method("interop/reverse", {"text": "abc"})
    try:
        await turn.client.ext_method("interop/nope", {})
        code = None
    except acp.RequestError as error:
        code = error.code
    await turn.say_json({"reversed": reversed_["text"], "unknown": code})


async def refuse(turn: Prompt) -> None:
    raise acp.RequestError(**SCRIPT["refusal"])


async def fail(turn: Prompt) -> None:
    raise ValueError("a fault in the agent")


async def crash(turn: Prompt) -> None:
    await turn.say("going down")
    sys.stderr.write(SCRIPT["stderr_text"] + "\n")
    sys.stderr.flush()
    os._exit(SCRIPT["exit_code"])


WORDS: dict[str, Callable[[Prompt], Awaitable[str | None]]] = {
    word.__name__.replace("_", "-"): word
    for word in (
        *(text, tool, permission, files, terminal, cancel_me, mode, change_mode, model, change_model),
        *(echo, big, blocks, form, extensions, refuse, fail, crash),
    )
}
