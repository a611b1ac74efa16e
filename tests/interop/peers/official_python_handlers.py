"""Request handlers of the scripted official Python client: permissions, files, terminals, forms."""

import asyncio
import os
import signal
from asyncio.subprocess import PIPE, STDOUT, Process
from contextlib import suppress
from pathlib import Path
from typing import Any

import acp
from acp import schema


class Terminal:
    """A running command and its output."""

    def __init__(self, process: Process, limit: int | None) -> None:
        self.process = process
        self._limit = limit
        self._printed = b""
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        assert self.process.stdout is not None
        while data := await self.process.stdout.read(65536):
            self._printed += data

    async def wait(self) -> dict[str, Any]:
        await self.process.wait()
        await self._reading
        return self.status or {}

    @property
    def status(self) -> dict[str, Any] | None:
        code = self.process.returncode
        if code is None:
            return None
        return {"exit_code": code} if code >= 0 else {"signal": signal.Signals(-code).name}

    def output(self) -> tuple[str, bool]:
        if self._limit is None or len(self._printed) <= self._limit:
            return self._printed.decode(), False
        return self._printed[-self._limit :].decode(errors="ignore"), True

    def kill(self) -> None:
        if self.process.returncode is None or not self._reading.done():
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)  # the whole process group


class RequestHandlers(acp.Client):
    """Serves the requests of an agent; `decision` is the option to select, or "cancel" to cancel the turn."""

    decision: str | None
    forms: list[dict[str, Any] | None]
    agent: Any

    def __init__(self) -> None:
        self.terminals: dict[str, Terminal] = {}

    def report(self, what: str, **more: Any) -> None:
        """Report an observation."""
        raise NotImplementedError

    async def request_permission(
        self, session_id: str, tool_call: Any, options: list[schema.PermissionOption], **kwargs: Any
    ) -> acp.RequestPermissionResponse:
        self.report(
            "permission",
            tool_call=tool_call.model_dump(mode="json", by_alias=True, exclude_none=True),
            options=[option.model_dump(mode="json", by_alias=True, exclude_none=True) for option in options],
        )
        if self.decision == "cancel":
            await self.agent.cancel(session_id)
            return acp.RequestPermissionResponse(outcome=schema.DeniedOutcome(outcome="cancelled"))
        assert self.decision is not None
        return acp.RequestPermissionResponse(
            outcome=schema.AllowedOutcome(outcome="selected", option_id=self.decision)
        )

    async def read_text_file(
        self, session_id: str, path: str, line: int | None = None, limit: int | None = None, **kwargs: Any
    ) -> acp.ReadTextFileResponse:
        self.report("request", method="fs/read_text_file", path=path, line=line, limit=limit)
        try:
            lines = Path(path).read_text("utf-8").splitlines(keepends=True)
        except FileNotFoundError:
            raise acp.RequestError.resource_not_found(path) from None
        start = (line or 1) - 1
        return acp.ReadTextFileResponse(
            content="".join(lines[start : None if limit is None else start + limit])
        )

    async def write_text_file(
        self, session_id: str, path: str, content: str, **kwargs: Any
    ) -> acp.WriteTextFileResponse | None:
        self.report("request", method="fs/write_text_file", path=path)
        Path(path).write_text(content, "utf-8")
        return acp.WriteTextFileResponse()

    async def create_terminal(
        self,
        session_id: str,
        command: str,
        args: list[str] | None = None,
        env: list[schema.EnvVariable] | None = None,
        cwd: str | None = None,
        output_byte_limit: int | None = None,
        **kwargs: Any,
    ) -> acp.CreateTerminalResponse:
        self.report("request", method="terminal/create", command=command, cwd=cwd)
        variables = {**os.environ, **{one.name: one.value for one in env or []}}
        process = await asyncio.create_subprocess_exec(
            command,
            *(args or []),
            cwd=cwd,
            env=variables,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=PIPE,
            stderr=STDOUT,
            start_new_session=True,
        )
        name = f"terminal-{len(self.terminals) + 1}"
        self.terminals[name] = Terminal(process, output_byte_limit)
        return acp.CreateTerminalResponse(terminal_id=name)

    async def terminal_output(
        self, session_id: str, terminal_id: str, **kwargs: Any
    ) -> acp.TerminalOutputResponse:
        terminal = self.terminals[terminal_id]
        output, truncated = terminal.output()
        status = terminal.status
        return acp.TerminalOutputResponse(
            output=output,
            truncated=truncated,
            exit_status=schema.TerminalExitStatus(**status) if status else None,
        )

    async def wait_for_terminal_exit(
        self, session_id: str, terminal_id: str, **kwargs: Any
    ) -> acp.WaitForTerminalExitResponse:
        return acp.WaitForTerminalExitResponse(**await self.terminals[terminal_id].wait())

    async def kill_terminal(
        self, session_id: str, terminal_id: str, **kwargs: Any
    ) -> acp.KillTerminalResponse | None:
        self.terminals[terminal_id].kill()
        return acp.KillTerminalResponse()

    async def release_terminal(
        self, session_id: str, terminal_id: str, **kwargs: Any
    ) -> acp.ReleaseTerminalResponse | None:
        self.report("request", method="terminal/release")
        self.terminals.pop(terminal_id).kill()
        return acp.ReleaseTerminalResponse()

    async def create_elicitation(self, message: str, mode: Any, **kwargs: Any) -> Any:
        self.report(
            "form",
            message=message,
            schema=mode.requested_schema.model_dump(mode="json", by_alias=True, exclude_none=True),
        )
        content = self.forms.pop(0)
        if content is None:
            return acp.DeclineElicitationResponse(action="decline")
        return acp.AcceptElicitationResponse.model_validate({"action": "accept", "content": content})

    async def ext_method(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        if method == "interop/reverse":
            return {"text": params["text"][::-1]}
        raise acp.RequestError.method_not_found(f"_{method}")

    async def ext_notification(self, method: str, params: dict[str, Any]) -> None:
        pass

    async def complete_elicitation(self, elicitation_id: str, **kwargs: Any) -> None:
        pass
