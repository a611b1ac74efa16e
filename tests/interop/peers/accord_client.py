"""The scripted client on accord.client: runs every scenario of script.json and prints what it observes.

Usage: accord_client.py FOLDER AGENT [ARGUMENT ...]. Prints one JSON line per observation, in order.
AGENT may be a URL; CERTIFICATE names the certificate to trust, and RECORD the folder for the messages.
"""

import asyncio
import hashlib
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import accord
from accord import schema
from accord.client import DECLINED, ElicitationForm
from accord.schema.codec import read, to_builtins
from accord.session import ModeChanged
from accord.trace.tap import TappedTransport
from accord.wire.transport import Frame, Transport, TransportEnd

SCRIPT = json.loads((Path(__file__).parent / "script.json").read_text("utf-8"))
LONG = 10_000
Step = dict[str, Any]


def shorten(value: Any) -> Any:
    """The same value, with long texts replaced by their length and hash."""
    if isinstance(value, str) and len(value) > LONG:
        return {"length": len(value), "sha256": hashlib.sha256(value.encode()).hexdigest()}
    if isinstance(value, dict):
        return {key: shorten(item) for key, item in value.items()}
    if isinstance(value, list):
        return [shorten(item) for item in value]
    return value


def as_update(event: Any) -> dict[str, Any] | None:
    """The update behind an event in its wire form, or None for other events."""
    match event:
        case accord.ToolCallChanged():
            kind = "tool_call" if event.announce else "tool_call_update"
            return {"sessionUpdate": kind, **to_builtins(event.patch)}
        case accord.PlanChanged(plan=schema.PlanItems() as plan):
            return {"sessionUpdate": "plan", "entries": to_builtins(plan.entries)}
        case ModeChanged():
            return {"sessionUpdate": "current_mode_update", "currentModeId": event.mode_id}
        case schema.Object():
            return to_builtins(event)
        case _:
            return None


def summary(state: accord.SessionState) -> dict[str, Any]:
    """The content of the session state."""
    return {
        "messages": [[message.kind, message.text] for message in state.messages],
        "plan": to_builtins(state.plan),
        "tool_calls": {id: [call.label, call.status] for id, call in state.tool_calls.items()},
        "commands": to_builtins(state.commands),
        "usage": to_builtins(state.usage),
        "title": state.title,
        "mode": state.settings.current_mode_id,
    }


class Record:
    """Records every message of both directions, one per line."""

    def __init__(self, folder: str) -> None:
        self.files = {
            side: Path(folder, f"to_{other}").open("wb")  # noqa: SIM115 - closed by `ended`
            for side, other in (("client", "agent"), ("agent", "client"))
        }

    def wrap(self, transport: Transport) -> Transport:
        return TappedTransport(transport, self, ours="client")

    def add_frames(self, sender: str, frames: Sequence[Frame]) -> None:
        self.files[sender].writelines(frame + b"\n" for frame in frames if isinstance(frame, bytes))

    def ended(self, end: TransportEnd, sender: str) -> None:
        for file in self.files.values():
            file.close()

    async def aclose(self) -> None:
        pass


class ScenarioRunner:
    """Runs the steps of a scenario and serves the requests of the agent."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.scenario = ""
        self.sessions: dict[str, accord.ClientSession] = {}
        self.decision: str | None = None
        self.forms: list[Any] = []
        self.exit: dict[str, Any] = {}
        self.agent: accord.RemoteAgent
        self.handlers = accord.ClientHandlers(
            permissions=self.decide,
            workspace=accord.local_workspace,
            forms=self.fill_in,
            extensions={"_interop/reverse": lambda params: {"text": params["text"][::-1]}},
        )
        self.options = accord.ClientOptions(
            strict=True,
            observer=lambda problem: self.report("complaint", text=str(problem)),
            wrap=Record(os.environ["RECORD"]).wrap if "RECORD" in os.environ else None,
        )

    def report(self, what: str, **more: Any) -> None:
        sys.stdout.write(json.dumps({"scenario": self.scenario, "what": what, **shorten(more)}) + "\n")
        sys.stdout.flush()

    def decide(self, request: accord.PermissionRequest) -> str | None:
        self.report(
            "permission",
            tool_call=to_builtins(request.params.tool_call),
            options=to_builtins(request.options),
        )
        if self.decision == "cancel":
            request.session.cancel()
            return None
        return self.decision

    def fill_in(self, form: ElicitationForm) -> Any:
        self.report("form", message=form.message, schema=to_builtins(form.schema))
        values = self.forms.pop(0)
        return DECLINED if values is None else values

    async def run(self, agent: accord.RemoteAgent) -> None:
        """Run all scenarios in order."""
        self.agent = agent
        self.scenario = "initialize"
        result = {
            "agentInfo": agent.info,
            "agentCapabilities": agent.capabilities,
            "authMethods": list(agent.auth_methods),
        }
        self.report("answer", to="initialize", result={"protocolVersion": 1, **to_builtins(result)})
        for name, scenario in SCRIPT["scenarios"].items():
            self.scenario = name
            self.sessions = {}
            self.decision = scenario.get("permission")
            self.forms = [SCRIPT["filled_in"], None]
            await self.run_steps(scenario["steps"])

    async def run_steps(self, steps: list[Step]) -> None:
        for step in steps:
            try:
                result = await getattr(self, step["do"])(step)
            except accord.RpcError as error:
                self.report("error", to=step["do"], code=error.code, message=error.message, data=error.data)
            except accord.AccordError as error:
                self.report("error", to=step["do"], code=None, type=type(error).__name__, message=str(error))
            else:
                if result is not None:
                    self.report("answer", to=step["do"], result=result)

    def session(self, step: Step) -> accord.ClientSession:
        return self.sessions[step.get("session", "main")]

    def opened(self, session: accord.ClientSession, name: str = "main") -> Any:
        self.sessions[name] = session
        settings = session.state.settings
        options = to_builtins(settings.config_options)
        modes = {"currentModeId": settings.current_mode_id, "availableModes": to_builtins(settings.modes)}
        return {"sessionId": session.id, "modes": modes, "configOptions": options}

    async def new(self, step: Step) -> Any:
        return self.opened(await self.agent.new_session(self.folder), step.get("as", "main"))

    async def prompt(self, step: Step) -> Any:
        blocks: list[Any] = [schema.TextContent(step["text"])]
        blocks += [read(schema.ContentBlock, SCRIPT[name]) for name in step.get("with", [])]
        if "bulk" in step:
            blocks.append(schema.TextContent(SCRIPT["bulk"] * (step["bulk"] // len(SCRIPT["bulk"]))))
        session = self.session(step)
        reason = None
        meanwhile: list[asyncio.Task[None]] = []
        async for event in session.prompt(blocks):
            update = as_update(event)
            if update is not None:
                self.report("update", session=session.id, type=type(event).__name__, update=update)
            if "once_waiting" in step and isinstance(event, accord.AgentMessageChunk):
                meanwhile.append(asyncio.create_task(self.run_steps(step["once_waiting"])))
            if isinstance(event, accord.AgentEnded):
                self.exit = {"code": event.exit_code, "stderr": event.stderr}
            if isinstance(event, accord.TurnEnded):
                reason = event.stop_reason
        await asyncio.gather(*meanwhile)
        self.report("state", **summary(session.state))
        return {"stopReason": reason}

    async def together(self, step: Step) -> None:
        await asyncio.gather(*(self.run_steps([{"do": "prompt", **prompt}]) for prompt in step["prompts"]))

    async def cancel(self, step: Step) -> None:
        self.session(step).cancel()

    async def set_mode(self, step: Step) -> Any:
        await self.session(step).set_mode(step["mode"])
        return {}

    async def set_config(self, step: Step) -> Any:
        session = self.session(step)
        await session.set_config_option(step["option"], step["value"])
        return {"configOptions": to_builtins(session.state.settings.config_options)}

    async def list(self, step: Step) -> Any:
        found = [info async for info in self.agent.list_sessions(cwd=self.folder)]
        return {"sessions": to_builtins(found)}

    async def load(self, step: Step) -> Any:
        name = step.get("session", "main")
        known = self.sessions.get(name)
        session = await self.agent.load_session(known.id if known else name, self.folder)
        for message in session.state.messages:
            kind = f"{message.kind}_message_chunk"
            update = {"sessionUpdate": kind, "content": {"type": "text", "text": message.text}}
            self.report("update", session=session.id, type="Message", update=update)
        return self.opened(session)

    async def resume(self, step: Step) -> Any:
        return self.opened(await self.agent.resume_session(self.session(step).id, self.folder))

    async def close(self, step: Step) -> Any:
        await self.session(step).close()
        return {}

    async def delete(self, step: Step) -> Any:
        try:
            await self.agent.delete_session(self.session(step).id)
        except accord.NotOffered:
            self.report("not-offered", to="delete")
            return None
        return {}

    async def authenticate(self, step: Step) -> Any:
        await self.agent.authenticate(step["method"])
        return {}

    async def extension(self, step: Step) -> Any:
        return await self.agent.request(step["method"], step["params"])


async def main(folder: str, *command: str) -> None:
    runner = ScenarioRunner(folder)
    tls = os.environ.get("CERTIFICATE")
    async with accord.connect(*command, tls=tls, handlers=runner.handlers, options=runner.options) as agent:
        await runner.run(agent)
    runner.scenario = "end"
    runner.report("exit", **runner.exit)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
