"""The scripted client on the official Python SDK: runs the scenarios of script.json, prints what it observes.

Usage: official_python_client.py FOLDER AGENT [ARGUMENT ...]. Prints one JSON line per observation, in order.
SCRIPT names another script. AGENT may be a URL; TOKEN and CERTIFICATE are used for it.
"""

import asyncio
import functools
import hashlib
import json
import logging
import os
import ssl
import sys
import warnings
from pathlib import Path
from typing import Any

import acp
import httpx
from acp import schema
from acp.http import create_http_stream
from acp.ws import client as ws
from official_python_handlers import RequestHandlers

SCRIPT = json.loads((Path(__file__).parent / os.environ.get("SCRIPT", "script.json")).read_text("utf-8"))
LONG = 10_000
WAITING = {"content": {"type": "text", "text": "waiting"}}


def shorten(value: Any) -> Any:
    """The same value, with long texts replaced by their length and hash."""
    if isinstance(value, str) and len(value) > LONG:
        return {"length": len(value), "sha256": hashlib.sha256(value.encode()).hexdigest()}
    if isinstance(value, dict):
        return {key: shorten(item) for key, item in value.items()}
    if isinstance(value, list):
        return [shorten(item) for item in value]
    return value


def to_json(model: Any) -> Any:
    """The JSON form of what the SDK decoded."""
    return None if model is None else model.model_dump(mode="json", by_alias=True, exclude_none=True)


class Complaints(logging.Handler):
    """Reports every warning that the SDK logs."""

    def __init__(self, runner: "ScenarioRunner") -> None:
        super().__init__(logging.WARNING)
        self._runner = runner

    def emit(self, record: logging.LogRecord) -> None:
        fault = record.exc_info[1] if record.exc_info else ""
        self._runner.report("complaint", text=f"{record.getMessage()} {fault}")


class ScenarioRunner(RequestHandlers):
    """Runs the steps of a scenario and serves the requests of the agent."""

    def __init__(self, folder: str) -> None:
        super().__init__()
        self.folder = folder
        self.scenario = ""
        self.sessions: dict[str, str] = {}
        self.meanwhile: list[dict[str, Any]] = []
        self.once: dict[str, Any] = WAITING
        self.process: Any = None
        self.running: list[asyncio.Task[None]] = []
        self.agent: Any = None

    def on_connect(self, conn: acp.Agent) -> None:
        self.agent = conn

    def report(self, what: str, **more: Any) -> None:
        sys.stdout.write(json.dumps({"scenario": self.scenario, "what": what, **shorten(more)}) + "\n")
        sys.stdout.flush()

    async def session_update(self, session_id: str, update: Any, **kwargs: Any) -> None:
        content = to_json(update)
        self.report("update", session=session_id, type=type(update).__name__, update=content)
        if self.meanwhile and self.once.items() <= content.items():
            self.running, self.meanwhile = [asyncio.create_task(self.steps(self.meanwhile))], []

    async def run(self, capabilities: schema.ClientCapabilities) -> None:
        """Initialize, then run all scenarios."""
        self.scenario = "initialize"
        answer = await self.agent.initialize(
            acp.PROTOCOL_VERSION, capabilities, schema.Implementation(name="official-python", version="1")
        )
        self.report("answer", to="initialize", result=to_json(answer))
        for name, scenario in SCRIPT["scenarios"].items():
            self.scenario = name
            self.sessions = {}
            self.decision = scenario.get("permission")
            self.forms = [SCRIPT["filled_in"], None]
            await self.steps(scenario["steps"])

    async def steps(self, steps: list[dict[str, Any]]) -> None:
        for step in steps:
            try:
                result = await getattr(self, step["do"])(step)
            except acp.RequestError as error:
                self.report("error", to=step["do"], code=error.code, message=str(error), data=error.data)
            except Exception as error:  # noqa: BLE001 - the test checks every error of the SDK
                self.report("error", to=step["do"], code=None, type=type(error).__name__, message=str(error))
            else:
                if result is not None:
                    self.report("answer", to=step["do"], result=to_json(result))

    def session(self, step: dict[str, Any]) -> str:
        name: str = step.get("session", "main")
        return self.sessions.get(name, name)

    async def new(self, step: dict[str, Any]) -> Any:
        answer = await self.agent.new_session(self.folder, mcp_servers=[])
        self.sessions[step.get("as", "main")] = answer.session_id
        return answer

    async def prompt(self, step: dict[str, Any]) -> Any:
        blocks: list[Any] = [acp.text_block(step["text"])]
        blocks += [
            schema.PromptRequest.model_validate({"sessionId": "", "prompt": [SCRIPT[name]]}).prompt[0]
            for name in step.get("with", [])
        ]
        if "bulk" in step:
            blocks.append(acp.text_block(SCRIPT["bulk"] * (step["bulk"] // len(SCRIPT["bulk"]))))
        self.meanwhile, self.running = step.get("once_waiting", []), []
        self.once = step.get("once", WAITING)
        answer = await self.agent.prompt(self.session(step), blocks)
        await self.settled()
        await asyncio.gather(*self.running)
        return answer

    async def together(self, step: dict[str, Any]) -> None:
        await asyncio.gather(*(self.steps([{"do": "prompt", **prompt}]) for prompt in step["prompts"]))

    async def cancel(self, step: dict[str, Any]) -> None:
        await self.agent.cancel(self.session(step))

    async def set_mode(self, step: dict[str, Any]) -> Any:
        return await self.agent.set_session_mode(self.session(step), step["mode"])

    async def set_config(self, step: dict[str, Any]) -> Any:
        return await self.agent.set_config_option(step["option"], self.session(step), step["value"])

    async def list(self, step: dict[str, Any]) -> Any:
        sessions: list[Any] = []
        cursor = None
        while True:
            page = await self.agent.list_sessions(cwd=self.folder, cursor=cursor)
            sessions += page.sessions
            cursor = page.next_cursor
            if cursor is None:
                return schema.ListSessionsResponse(sessions=sessions)

    async def load(self, step: dict[str, Any]) -> Any:
        answer = await self.agent.load_session(self.folder, self.session(step), mcp_servers=[])
        await self.settled()
        return answer

    async def settled(self) -> None:
        """Let pending notification handlers run: a response may be delivered before them."""
        for _ in range(100):
            await asyncio.sleep(0)

    async def resume(self, step: dict[str, Any]) -> Any:
        return await self.agent.resume_session(self.session(step), self.folder, mcp_servers=[])

    async def close(self, step: dict[str, Any]) -> Any:
        return await self.agent.close_session(self.session(step))

    async def delete(self, step: dict[str, Any]) -> None:
        self.report("not-offered", to="delete")  # this SDK does not support it

    async def leave(self, step: dict[str, Any]) -> None:
        self.process.stdin.close()

    async def authenticate(self, step: dict[str, Any]) -> Any:
        return await self.agent.authenticate(step["method"])

    async def extension(self, step: dict[str, Any]) -> None:
        result = await self.agent.ext_method(step["method"].removeprefix("_"), step["params"])
        self.report("answer", to="extension", result=result)


CAPABILITIES = schema.ClientCapabilities(
    fs=schema.FileSystemCapabilities(read_text_file=True, write_text_file=True),
    terminal=True,
    elicitation=schema.ElicitationCapabilities(form=schema.ElicitationFormCapabilities()),
)


async def run_remote(runner: ScenarioRunner, url: str) -> None:
    """Run with an agent behind a URL."""
    headers = {"Authorization": f"Bearer {os.environ['TOKEN']}"}
    if url.startswith("ws"):
        # Its client has no option for the message size, and accepts one megabyte.
        ws.ws_connect = functools.partial(ws.ws_connect, max_size=None)  # type: ignore[misc, assignment]
        transport = await ws.create_websocket_stream(url, headers=headers)
    else:
        trust = os.environ.get("CERTIFICATE")
        verify = ssl.create_default_context(cafile=trust) if trust else True
        client = httpx.AsyncClient(http2=True, timeout=None, verify=verify)
        transport = create_http_stream(url, client=client, headers=headers)
    runner.agent = acp.connect_to_agent(runner, transport, use_unstable_protocol=True)
    await runner.run(CAPABILITIES)
    runner.scenario = "end"
    await runner.agent.close()
    await transport.close()


async def main(folder: str, *command: str) -> None:
    runner = ScenarioRunner(folder)
    logging.captureWarnings(capture=True)
    warnings.simplefilter("always")
    logging.getLogger().addHandler(Complaints(runner))
    if "://" in command[0]:
        await run_remote(runner, command[0])
        return
    async with acp.spawn_agent_process(
        runner, *command, transport_kwargs={"stderr": None}, use_unstable_protocol=True
    ) as (_, process):
        runner.process = process
        await runner.run(CAPABILITIES)
        runner.scenario = "end"
        await process.wait()
    runner.report("exit", code=process.returncode)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
