"""Drives one real agent with Accord's client library and the scripted model, and fills its row."""

import asyncio
import os
import re
import subprocess
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from tests.real_programs.model_script import ANSWER, ModelScript

import accord
from accord.errors import AccordError
from accord.schema import PermissionOption
from accord.testing.model_server import ModelServer
from accord.workspace import LocalWorkspace, TextFiles

COLUMNS: Final = ("text", "tool", "refuse", "cancel", "resume", "mode", "model")
YES: Final = "yes"
_STEP_SECONDS: Final = 60.0
_START_SECONDS: Final = 90.0
_CANCEL_SECONDS: Final = 40.0
_REMEMBERED: Final = "interop-marker-7261"


@dataclass(frozen=True, kw_only=True)
class AgentProgram:
    """One agent of `programs.toml`."""

    name: str
    command: tuple[str, ...]
    package: str = ""
    """`npm:name@version` or `pypi:name==version`; empty for what the repository has itself."""
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    """Variables; an empty one is removed."""
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    """Files of the temporary home, by path. `{root}`, `{openai}`, `{home}` and `{folder}` are replaced."""
    setup: tuple[tuple[str, ...], ...] = ()
    """Commands that configure it in its temporary home."""
    extra: tuple[str, ...] = ()
    """Packages that it needs and does not declare."""
    auth: str = ""
    """The sign-in method to use before a session."""
    missing_is_empty: bool = False
    """Whether it must get an empty text for a missing file; otherwise it cannot create files."""
    mode: str = ""
    """The mode to choose, where the default does not ask the user."""
    protocol: Literal[1, 2] = 1
    """The protocol version to speak."""

    @property
    def version(self) -> str:
        """The pinned version."""
        return self.package.rpartition("@" if self.package.startswith("npm:") else "==")[2] or "this version"


class AgentExchange:
    """The exchange with one agent. Every step is bounded; a failed one becomes the reason in its cell."""

    def __init__(self, program: AgentProgram, bin_folder: Path) -> None:
        self._program = program
        self._bin = bin_folder
        self._refuse = False
        self._asked = 0
        self._places: dict[str, str] = {}
        self.cells: dict[str, str] = {}
        self.log: list[str] = []
        """Details for whoever reads the log of the run."""

    async def run(self) -> dict[str, str]:
        """Run all steps and return the cells by column."""
        with tempfile.TemporaryDirectory(prefix="interop-", ignore_cleanup_errors=True) as root:
            home, folder = Path(root, "home"), Path(root, "project")
            folder.mkdir()
            (folder / "README.md").write_text("A project.\n")
            await (await asyncio.create_subprocess_exec("git", "init", "-q", folder)).wait()
            script = ModelScript(folder / "made.txt")
            # Agents also ask for what the script does not know, such as token counts: no failure here.
            with suppress(AssertionError):
                async with ModelServer(script.reply, models=["scripted-1", "scripted-2"]) as server:
                    env = self._environment(home, folder, server)
                    await self._set_up(env, folder)
                    await self._run(env, folder, script, server)
                    self.log += server.unexpected
        return self.cells

    async def _set_up(self, env: dict[str, str | None], folder: Path) -> None:
        known = {name: value for name, value in env.items() if value is not None}
        for command in self._program.setup:
            words = [self._replaced(word) for word in command]
            process = await asyncio.create_subprocess_exec(
                *words,
                cwd=folder,
                env=known,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
            try:
                async with asyncio.timeout(_STEP_SECONDS):
                    output, _ = await process.communicate()
                self.log.append(f"$ {words}: {output.decode(errors='replace')}")
            finally:
                if process.returncode is None:
                    process.kill()
                    await process.wait()

    async def _run(
        self, env: dict[str, str | None], folder: Path, script: ModelScript, server: ModelServer
    ) -> None:
        session_id = ""
        try:
            async with asyncio.timeout(_START_SECONDS * 4), self._connect(env, folder) as agent:
                self.log.append(f"{agent.info} {agent.auth_methods}")
                async with asyncio.timeout(_START_SECONDS):
                    session = await self._open(agent, folder)
                session_id = session.id
                steps: dict[str, Callable[[], Awaitable[str]]] = {
                    "text": lambda: self._text(session, script),
                    "tool": lambda: self._tool(session, script),
                    "refuse": lambda: self._tool(session, script, refuse=True),
                    "cancel": lambda: self._cancel(session, script),
                    "mode": lambda: self._choose(session, "mode"),
                    "model": lambda: self._choose(session, "model"),
                }
                for column, step in steps.items():
                    await self._cell(column, step())
        except (AccordError, OSError, TimeoutError) as error:
            self._fill(error)
            return
        except BaseExceptionGroup as error:
            self._fill(error.exceptions[0])
            return
        await self._cell("resume", self._resume(env, folder, session_id, script, server))

    def _fill(self, error: BaseException) -> None:
        self.log.append(repr(error))
        for column in COLUMNS:
            self.cells.setdefault(column, reason(error) if not self.cells else "")

    def _connect(self, env: dict[str, str | None], folder: Path) -> "accord.client.PendingAgent":
        program, *arguments = self._program.command
        local = self._bin / program
        handlers = accord.ClientHandlers(permissions=self._permission, workspace=self._workspace)
        limits = accord.TimeLimits(startup=_START_SECONDS, cancel=_CANCEL_SECONDS)
        options = accord.ClientOptions(
            limits=limits, on_stderr=lambda line: self.log.append(f"stderr: {line}")
        )
        return accord.connect(
            str(local) if local.exists() else program,
            *arguments,
            cwd=folder,
            env=env,
            handlers=handlers,
            options=options,
            protocol=self._program.protocol,
        )

    def _workspace(self, session: accord.ClientSession) -> LocalWorkspace:
        files = TextFiles(session.roots, missing_is_empty=self._program.missing_is_empty)
        return LocalWorkspace(session.roots, files=files)

    async def _open(self, agent: accord.RemoteAgent, folder: Path) -> accord.ClientSession:
        if self._program.auth:
            await agent.authenticate(self._program.auth)
        session = await agent.new_session(folder)
        self.log.append(f"{session.state.settings.pickers}")
        if self._program.mode:
            picker = next(one for one in session.state.settings.pickers if one.category == "mode")
            await session.choose(picker, self._program.mode)
        return session

    def _permission(self, request: accord.PermissionRequest) -> PermissionOption | None:
        self._asked += 1
        kinds = ("reject_once", "reject_always") if self._refuse else ("allow_once", "allow_always")
        choice = next((option for kind in kinds if (option := request.option(kind)) is not None), None)
        self.log.append(f"asked: {request.call.label}; offered {request.options}; chosen {choice}")
        return choice

    async def _text(self, session: accord.ClientSession, script: ModelScript) -> str:
        script.begin("text")
        answer = await session.ask(f"Say something. Remember {_REMEMBERED}.")
        return (
            YES
            if ANSWER in answer.text
            else shortened(f"another answer: {answer.text.strip() or answer.stop_reason}")
        )

    async def _tool(self, session: accord.ClientSession, script: ModelScript, *, refuse: bool = False) -> str:
        self._refuse, self._asked = refuse, 0
        script.begin("tool", script.file.with_name("refused.txt" if refuse else "made.txt"))
        answer = await session.ask("Create the file.")
        exists = script.file.exists()
        self.log.append(
            f"tool {script.called!r} of {script.offered}; asked {self._asked}; {answer.stop_reason}"
        )
        self.log.append(f"the model saw: {str(script.last)[:600]}")
        if not script.called:
            return "no tool that creates files"
        if not refuse:
            return YES if exists else "the file was not made"
        if exists:
            return "did it anyway" if self._asked else "does not ask"
        return YES if self._asked else "failed without asking"

    async def _cancel(self, session: accord.ClientSession, script: ModelScript) -> str:
        script.begin("wait")
        async with asyncio.TaskGroup() as group:
            turn = group.create_task(session.ask("Wait."))
            reached = group.create_task(script.pause.reached())
            await asyncio.wait((turn, reached), return_when=asyncio.FIRST_COMPLETED)
            reached.cancel()
            if not turn.done():
                session.cancel()
            answer = await turn
        script.pause.release()
        return YES if answer.stop_reason == "cancelled" else f"ends as {answer.stop_reason}"

    async def _choose(self, session: accord.ClientSession, category: str) -> str:
        pickers = [
            picker
            for picker in session.state.settings.pickers
            if category in (picker.category, picker.source.removesuffix("s"))
        ]
        others = [
            (picker, choice.value)
            for picker in pickers
            for choice in picker.choices
            if choice.value != picker.current
        ]
        if not others:
            return "one only" if pickers else "none"
        await session.choose(*others[0])
        return YES

    async def _resume(
        self,
        env: dict[str, str | None],
        folder: Path,
        session_id: str,
        script: ModelScript,
        server: ModelServer,
    ) -> str:
        script.begin("text")
        async with self._connect(env, folder) as agent:
            if self._program.auth:
                await agent.authenticate(self._program.auth)
            if agent.capabilities.load_session is True:
                session = await agent.load_session(session_id, folder)
            else:
                session = await agent.resume_session(session_id, folder)
            before = len(server.requests)
            await session.ask("Go on.")
            remembered = any(_REMEMBERED in str(request.body) for request in server.requests[before:])
        return YES if remembered else "without the history"

    async def _cell(self, column: str, step: Awaitable[str]) -> None:
        try:
            async with asyncio.timeout(_STEP_SECONDS):
                self.cells[column] = await step
        except BaseExceptionGroup as error:
            self.cells[column] = reason(error.exceptions[0])
        except (AccordError, TimeoutError, OSError) as error:
            self.log.append(f"{column}: {error!r}")
            self.cells[column] = reason(error)

    def _environment(self, home: Path, folder: Path, server: ModelServer) -> dict[str, str | None]:
        """Return the changes of the environment: a temporary home, and no way to other servers."""
        self._places = {
            "{root}": server.base_url("anthropic"),
            "{openai}": server.base_url("openai"),
            "{home}": str(home),
            "{folder}": str(folder),
        }
        home.mkdir()
        for name, text in self._program.files.items():
            path = home / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(self._replaced(text))
        kept = ("PATH", "LANG", "TERM", "TMPDIR")
        nowhere = "http://127.0.0.1:9"
        return {
            **{name: None for name in os.environ if name not in kept},
            "HOME": str(home),
            "PATH": f"{self._bin}{os.pathsep}{os.environ['PATH']}",
            **dict.fromkeys(("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"), nowhere),
            **dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1,localhost"),
            **{name: self._replaced(value) or None for name, value in self._program.env.items()},
        }

    def _replaced(self, text: str) -> str:
        for mark, value in self._places.items():
            text = text.replace(mark, value)
        return text


def log_name(program: str) -> str:
    """Return the name of a program's log file."""
    return re.sub(r"\W+", "-", program).strip("-") + ".log"


def reason(error: BaseException) -> str:
    """Return a short reason for a cell."""
    if isinstance(error, accord.AuthRequired):
        return "sign-in needed"
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return shortened(str(error) or type(error).__name__)


def shortened(text: str) -> str:
    """Return a text for a cell: one line, without the paths of this machine."""
    text = re.sub(r"(?<!\w)/\S*/", "", " ".join(text.split()))
    return text if len(text) <= 60 else f"{text[:59]}…"
