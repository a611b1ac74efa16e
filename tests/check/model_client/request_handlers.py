"""How the model client serves requests: permissions, files, terminals, forms, its own MCP server."""

import asyncio
import os
import signal
import urllib.request
from asyncio.subprocess import PIPE, STDOUT, Process
from pathlib import Path
from typing import Any

Message = dict[str, Any]


class ErrorResponse(Exception):
    """An error response."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data


class Terminal:
    """A command and its output."""

    def __init__(self, process: Process, limit: int | None) -> None:
        self.process = process
        self.limit = limit
        self.printed = b""
        self.reading = asyncio.get_running_loop().create_task(self._read())

    async def _read(self) -> None:
        assert self.process.stdout is not None
        while data := await self.process.stdout.read(65536):
            self.printed += data

    async def wait(self) -> Message:
        await self.process.wait()
        await self.reading
        return self.status

    @property
    def status(self) -> Message:
        code = self.process.returncode
        if code is None:
            return {}
        return {"exitCode": code} if code >= 0 else {"signal": signal.Signals(-code).name}

    def kill(self) -> None:
        if self.process.returncode is None:
            os.killpg(self.process.pid, signal.SIGKILL)


class RequestHandlers:
    """Serves the requests of the agent. `breaks(rule)` says which rule to break."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.breaks = client.breaks
        self.terminals: dict[str, Terminal] = {}

    async def serve(self, method: str, params: Any) -> Any:
        served = {
            "session/request_permission": self.permission,
            "fs/read_text_file": self.read,
            "fs/write_text_file": self.write,
            "terminal/create": self.create,
            "terminal/output": self.output,
            "terminal/wait_for_exit": self.wait,
            "terminal/kill": self.kill,
            "terminal/release": self.release,
            "elicitation/create": self.elicit,
            "mcp/message": self.mcp,
        }.get(method)
        gate = {"fs/": "fs", "terminal/": "terminal"}.get(method.partition("/")[0] + "/")
        if served is None or (gate in self.client.lacks and gate):
            rule = (
                "framing.client-unknown-extension"
                if method == "_test/x"
                else "framing.client-unknown-method"
                if method == "nope/nope"
                else "file.unadvertised-method"
                if served
                else None
            )
            raise ErrorResponse(-32603 if self.breaks(rule) else -32601, "Method not found")
        if not isinstance(params, dict):
            raise ErrorResponse(-32602, "no params")
        if method != "mcp/message":
            self._session(params)
        return await served(params)

    def _session(self, params: Message) -> None:
        session = params.get("sessionId")
        if not isinstance(session, str):
            if self.breaks("framing.client-invalid-params"):
                return
            raise ErrorResponse(-32602, "sessionId")
        if session not in (self.client.session, *self.client.children):
            raise ErrorResponse(
                -32603 if self.breaks("accord.client-unknown-session") else -32002,
                "Session not found",
                {"sessionId": session},
            )

    # -- permissions

    async def permission(self, params: Message) -> Any:
        client = self.client
        if self.breaks("permission.served"):
            raise ErrorResponse(-32601, "Method not found")
        if not client.strict and "options" not in params and "permissionId" in params:
            params = {**params, "toolCall": {"toolCallId": params["permissionId"]}, "options": []}
        call: Any = params.get("toolCall")
        options: Any = params.get("options")
        if self.breaks("fault-types") and isinstance(call, dict) and isinstance(call.get("kind"), dict):
            return {"outcome": {"outcome": "selected", "optionId": "x 1"}}
        valid = (
            isinstance(call, dict) and isinstance(call.get("toolCallId"), str) and isinstance(options, list)
        )
        if not valid or not all(
            isinstance(one["optionId"], str) and isinstance(one["kind"], str) for one in options
        ):
            if self.breaks("framing.client-invalid-params"):
                return {"outcome": {"outcome": "cancelled"}}
            raise ErrorResponse(-32602, "toolCall and options")
        if self.breaks("permission.offered-option"):
            return {"outcome": {"outcome": "selected", "optionId": "made up"}}
        if self.breaks("permission.concurrent") and call["toolCallId"] == "c2":
            await asyncio.Event().wait()
        if client.option("ask"):
            await client.cancelled.wait()
            if not self.breaks("cancel.pending-permissions"):
                return {"outcome": {"outcome": "cancelled"}}
        kinds = ("read", "file") if self.breaks("accord.only-official-read-kind") else ("read",)
        allow = client.option("allow") or (client.option("reads") and call.get("kind") in kinds)
        wanted = "allow_once" if allow else "reject_once"
        found = [one["optionId"] for one in options if one["kind"] == wanted]
        return {
            "outcome": {"outcome": "selected", "optionId": found[0]} if found else {"outcome": "cancelled"}
        }

    # -- files

    def _path(self, params: Message) -> Path:
        if not isinstance(params.get("path"), str):
            if self.breaks("framing.client-invalid-params"):
                return self.client.folder / "notes.txt"
            raise ErrorResponse(-32602, "path")
        path = Path(params["path"])
        if self.breaks("file.inside-roots") or path.resolve().is_relative_to(self.client.folder.resolve()):
            return path
        raise ErrorResponse(-32602, "outside of the roots")

    async def read(self, params: Message) -> Any:
        if self.breaks("subagent.inherited-roots") and params["sessionId"] in self.client.children:
            raise ErrorResponse(-32602, "outside of the roots")
        path = self._path(params)
        first, limit = params.get("line"), params.get("limit")
        for number in (first, limit):
            if number is not None and (type(number) is not int or number < 0):
                if self.breaks("file.invalid-line-or-limit"):
                    return {"content": "two\n"}
                raise ErrorResponse(-32602, "line or limit")
        if not path.is_file():
            raise ErrorResponse(-32603 if self.breaks("file.missing-file") else -32002, "no such file")
        lines = path.read_text("utf-8").splitlines(keepends=True)
        start = (first or 1) - (0 if self.breaks("file.line-and-limit") and first else 1)
        text = "".join(lines[start : None if limit is None else start + limit])
        return {
            "content": text.upper()
            if self.breaks("file.read-result") and first is None and limit is None
            else text
        }

    async def write(self, params: Message) -> Any:
        path = self._path(params)
        if self.breaks("file.write-creates") and not path.exists():
            raise ErrorResponse(-32002, "no such file")
        path.write_text(params["content"], "utf-8")
        return None if self.breaks("framing.client-empty-results") else {}

    # -- terminals

    async def create(self, params: Message) -> Any:
        args, env, cwd, limit = (params.get(name) for name in ("args", "env", "cwd", "outputByteLimit"))
        null_members = [
            name
            for name in ("args", "env", "cwd", "outputByteLimit")
            if name in params and params[name] is None
        ]
        if null_members and self.breaks("terminal.create-null-params"):
            raise ErrorResponse(-32602, null_members[0])
        bad = (
            args is not None and not (isinstance(args, list) and all(isinstance(one, str) for one in args))
        ) or (
            (cwd is not None and not isinstance(cwd, str))
            or (limit is not None and (not isinstance(limit, int) or limit < 0))
        )
        if bad:
            raise ErrorResponse(
                -32603 if self.breaks("terminal.create-invalid-params") else -32602, "wrong types"
            )
        more = {} if self.breaks("terminal.environment") else {one["name"]: one["value"] for one in env or []}
        process = await asyncio.create_subprocess_exec(
            params["command"],
            *(args or []),
            cwd=cwd,
            env={**os.environ, **more},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=PIPE,
            stderr=STDOUT,
            start_new_session=True,
        )
        name = f"t{len(self.terminals) + 1}"
        self.terminals[name] = Terminal(process, limit)
        if self.breaks("terminal.create-at-once"):
            await process.wait()
        return {"terminalId": name}

    def _terminal(self, params: Message) -> Terminal:
        found = self.terminals.get(params["terminalId"])
        if found is None:
            if self.breaks("terminal.unknown-id") and params["terminalId"] == "nope":
                return next(iter(self.terminals.values()))
            raise ErrorResponse(-32002, "no such terminal")
        return found

    async def output(self, params: Message) -> Any:
        if self.breaks("terminal.unknown-id") and params["terminalId"] == "nope":
            return {"output": "", "truncated": False}
        terminal = self._terminal(params)
        if self.breaks("terminal.calls-during-wait"):
            await terminal.wait()
        data, truncated = terminal.printed, False
        if terminal.limit is not None and len(data) > terminal.limit:
            data, truncated = data[-terminal.limit :], not self.breaks("terminal.output-limit")
        ended = terminal.process.returncode is not None
        status = {"exitStatus": terminal.status} if ended or self.breaks("terminal.output-members") else {}
        return {"output": data.decode(errors="ignore"), "truncated": truncated, **status}

    async def wait(self, params: Message) -> Any:
        status = await self._terminal(params).wait()
        return {"exitCode": 0} if self.breaks("terminal.exit-status") else status

    async def kill(self, params: Message) -> Any:
        terminal = self._terminal(params)
        terminal.kill()
        await terminal.wait()
        if self.breaks("terminal.kill-keeps-id"):
            self.terminals.pop(params["terminalId"])
            raise ErrorResponse(-32002, "gone")
        return {}

    async def release(self, params: Message) -> Any:
        terminal = self._terminal(params)
        if not self.breaks("terminal.release-kills"):
            terminal.kill()
        if not self.breaks("terminal.released-id-fails"):
            self.terminals.pop(params["terminalId"])
        self.client.released.append(terminal)
        return {}

    # -- elicitation

    async def elicit(self, params: Message) -> Any:
        mode = params.get("mode")
        if mode not in ("form", "url"):
            if self.breaks("elicitation.unknown-mode"):
                return {"action": "decline"}
            raise ErrorResponse(-32602, "mode")
        if mode in self.client.lacks:
            raise ErrorResponse(-32601 if self.breaks("elicitation.unadvertised-mode") else -32602, "mode")
        if mode == "url" and self.breaks("elicitation.url-only-on-consent"):
            await asyncio.to_thread(_open_url, params["url"])
        if mode == "form" and "pattern" in str(params) and self.breaks("elicitation.bounded-pattern"):
            self.client.crash()
        return {"action": "perhaps" if self.breaks("elicitation.action") else "decline"}

    async def mcp(self, params: Message) -> Any:
        if not isinstance(params.get("requestId"), str) or not isinstance(params.get("params", {}), dict):
            raise ErrorResponse(-32603 if self.breaks("mcp.malformed-refused") else -32602, "requestId")
        if params["method"] == "tools/list":
            if self.breaks("mcp.notification-of-active-request"):
                ids = {"serverId": params["serverId"], "requestId": params["requestId"]}
                progress = {**ids, "method": "notifications/progress", "params": {}}
                asyncio.get_running_loop().call_soon(self.client.notify, "mcp/message", progress)
            return {"result": {"tools": []}}
        if self.breaks("mcp.result-or-error"):
            raise ErrorResponse(-32601, "Method not found")
        return {"error": {"code": -32601, "message": "Method not found"}}


def _open_url(url: str) -> None:
    try:
        urllib.request.urlopen(url, timeout=1).close()
    except OSError:
        pass
