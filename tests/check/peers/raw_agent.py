"""An agent on the standard library alone: JSON lines on stdio, real MCP servers, tools that ask first.

Usage: raw_agent.py. The prompts are those of raw_agent.json. It keeps every rule of the protocol, so the
checker must have no finding about it; nothing in it comes from Accord.
"""

import json
import os
import queue
import subprocess
import sys
import threading
from typing import Any

ERRORS = {
    -32700: "Parse error",
    -32600: "Invalid request",
    -32601: "Method not found",
    -32602: "Invalid params",
    -32002: "Resource not found",
}
OUTPUT = threading.Lock()
STOP = object()


class Refused(Exception):
    """A request that gets an error."""

    def __init__(self, code: int, data: Any = None) -> None:
        super().__init__(ERRORS[code])
        self.error = {"code": code, "message": ERRORS[code], **({} if data is None else {"data": data})}


class Cancelled(Exception):
    """The client canceled the turn."""


def require(condition: bool) -> None:
    if not condition:
        raise Refused(-32602)


def send(message: Any) -> None:
    with OUTPUT:
        sys.stdout.write(json.dumps(message) + "\n")  # ASCII: a lone surrogate stays escaped
        sys.stdout.flush()


def answer(id: Any, **outcome: Any) -> None:
    send({"jsonrpc": "2.0", "id": id, **outcome})


class McpServer:
    """A running MCP server: a process that was initialized and asked for its tools."""

    def __init__(self, server: dict[str, Any], cwd: str) -> None:
        variables = {one["name"]: one["value"] for one in server.get("env") or []}
        self.process = subprocess.Popen(
            [server["command"], *(server.get("args") or [])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **variables},
            cwd=cwd,
        )
        info = {"name": "raw", "version": "1"}
        self.call("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info})
        self.tools = [tool["name"] for tool in self.call("tools/list", {})["tools"]]

    def call(self, method: str, params: dict[str, Any]) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        line = json.dumps({"jsonrpc": "2.0", "id": method, "method": method, "params": params})
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())["result"]

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


class Session:
    """A session: its folder, its MCP servers, and the running turn."""

    def __init__(self, agent: "Agent", id: str, params: dict[str, Any]) -> None:
        self.agent, self.id, self.cwd = agent, id, params["cwd"]
        self.servers: list[McpServer] = []
        self.turn: Any = None
        self.cancelled = threading.Event()
        self.waiting: list[queue.Queue[Any]] = []
        self.calls = 0
        for server in params.get("mcpServers") or []:
            try:
                self.servers.append(McpServer(server, self.cwd))
            except OSError as error:
                sys.stderr.write(f"MCP server {server['name']}: {error.strerror}\n")

    def update(self, tag: str, **members: Any) -> None:
        params = {"sessionId": self.id, "update": {"sessionUpdate": tag, **members}}
        send({"jsonrpc": "2.0", "method": "session/update", "params": params})

    def say(self, text: str, tag: str = "agent_message_chunk") -> None:
        self.update(tag, content={"type": "text", "text": text})

    def ask(self, method: str, **params: Any) -> Any:
        """Call the client and wait; an error or a result of a wrong type is None."""
        found: queue.Queue[Any] = queue.Queue()
        self.waiting.append(found)
        id = self.agent.register(found)
        if self.cancelled.is_set():
            raise Cancelled
        send({"jsonrpc": "2.0", "id": id, "method": method, "params": {"sessionId": self.id, **params}})
        message = found.get()
        if message is STOP:
            raise Cancelled
        result = message.get("result")
        return result if isinstance(result, dict) else None

    def run(self, id: Any, text: str) -> None:
        try:
            self.act(*text.split(maxsplit=1))
            reason = "end_turn"
        except Cancelled:
            reason = "cancelled"
        self.turn = None
        answer(id, result={"stopReason": reason})

    def act(self, word: str = "", rest: str = "") -> None:
        if word == "lines":
            self.say("one\ntwo\nthree\n")
        elif word == "echo":
            self.say(rest)
        elif word == "think":
            self.say("hm", "agent_thought_chunk")
        elif word == "plan":
            for status in ("pending", "completed"):
                entries = [{"content": "look", "priority": "high", "status": status}]
                self.update("plan", entries=entries)
        elif word == "busy":
            self.tool("wait", "other", self.cancelled.wait)
            raise Cancelled
        elif word == "read":
            self.tool(f"read {rest}", "read", lambda: self.read(os.path.join(self.cwd, rest)))
        elif word == "write":
            path, _, text = rest.partition(" ")
            self.tool(f"write {path}", "edit", lambda: self.write(os.path.join(self.cwd, path), text), True)
        elif word == "run":
            self.tool("echo checked", "execute", self.command)
        elif word == "mcp" and self.servers:
            server = self.servers[0]
            call: dict[str, Any] = {"name": server.tools[0], "arguments": {}}
            self.tool(call["name"], "other", lambda: server.call("tools/call", call)["content"][0]["text"])
        else:
            self.say("hello")

    def tool(self, title: str, kind: str, work: Any, asks: bool = False) -> None:
        """Report a tool call, ask for permission if needed, and run it."""
        self.calls += 1
        id = f"call-{self.calls}"
        self.update("tool_call", toolCallId=id, title=title, kind=kind, status="pending")
        status, text = "failed", "refused"
        try:
            if not asks or self.allowed(id, title, kind):
                self.update("tool_call_update", toolCallId=id, status="in_progress")
                text = str(work() or "done")
                status = "completed"
        except OSError as error:
            text = str(error)
        finally:
            content = [{"type": "content", "content": {"type": "text", "text": text}}]
            self.update("tool_call_update", toolCallId=id, status=status, content=content)

    def allowed(self, id: str, title: str, kind: str) -> bool:
        options = [
            {"optionId": "yes", "name": "Allow", "kind": "allow_once"},
            {"optionId": "no", "name": "Reject", "kind": "reject_once"},
        ]
        call = {"toolCallId": id, "title": title, "kind": kind, "status": "pending"}
        result = self.ask("session/request_permission", toolCall=call, options=options) or {}
        return result.get("outcome") == {"outcome": "selected", "optionId": "yes"} or (
            isinstance(result.get("outcome"), dict)
            and result["outcome"].get("outcome") == "selected"
            and result["outcome"].get("optionId") == "yes"
        )

    def read(self, path: str) -> str:
        if self.agent.offers("fs", "readTextFile"):
            text = (self.ask("fs/read_text_file", path=path) or {}).get("content")
            return text if isinstance(text, str) else ""
        with open(path, encoding="utf-8") as file:
            return file.read()

    def write(self, path: str, text: str) -> None:
        if self.agent.offers("fs", "writeTextFile"):
            self.ask("fs/write_text_file", path=path, content=text)
        else:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)

    def command(self) -> str:
        if not self.agent.offers("terminal"):
            return subprocess.run(["echo", "checked"], capture_output=True, text=True, check=False).stdout
        id = (self.ask("terminal/create", command="echo", args=["checked"]) or {}).get("terminalId")
        if not isinstance(id, str):
            return "no terminal"
        try:
            self.ask("terminal/wait_for_exit", terminalId=id)
            return str((self.ask("terminal/output", terminalId=id) or {}).get("output"))
        finally:
            self.release(id)

    def release(self, id: str) -> None:
        params = {"sessionId": self.id, "terminalId": id}
        message_id = self.agent.register(queue.Queue())
        send({"jsonrpc": "2.0", "id": message_id, "method": "terminal/release", "params": params})

    def cancel(self) -> None:
        if self.turn is not None:
            self.cancelled.set()
            for found in self.waiting:
                found.put(STOP)


class Agent:
    """The connection: requests of the client, and answers to those of the agent."""

    def __init__(self) -> None:
        self.capabilities: Any = None
        self.sessions: dict[str, Session] = {}
        self.pending: dict[str, queue.Queue[Any]] = {}
        self.numbers = 0

    def offers(self, *path: str) -> bool:
        value = self.capabilities
        for name in path:
            value = value.get(name) if isinstance(value, dict) else None
        return value is True

    def register(self, found: "queue.Queue[Any]") -> str:
        with OUTPUT:
            self.numbers += 1
            self.pending[f"raw-{self.numbers}"] = found
            return f"raw-{self.numbers}"

    def serve(self) -> None:
        for line in sys.stdin.buffer:
            if line.strip():
                self.receive(line)
        for session in self.sessions.values():
            session.cancel()
            for server in session.servers:
                server.close()
        os._exit(0)

    def receive(self, line: bytes) -> None:
        try:
            message = json.loads(line.decode())
        except (ValueError, RecursionError):
            answer(None, error=Refused(-32700).error)
            return
        if isinstance(message, list) and message:
            answers = [found for item in message if (found := self.handle(item)) is not None]
            if answers:
                send(answers)
        elif (found := self.handle(message)) is not None:
            send(found)

    def handle(self, message: Any) -> dict[str, Any] | None:
        """Handle one message. Returns its answer; None if there is none, or not yet."""
        if not isinstance(message, dict):
            return {"jsonrpc": "2.0", "id": None, "error": Refused(-32600).error}
        if "method" not in message:
            if "result" not in message and "error" not in message:
                return {"jsonrpc": "2.0", "id": None, "error": Refused(-32600).error}
            waiting = self.pending.pop(str(message.get("id")), None)
            if waiting is not None:
                waiting.put(message)
            return None
        params = {} if message.get("params") is None else message["params"]
        if "id" not in message:
            if message["method"] == "session/cancel" and isinstance(params, dict):
                session = self.sessions.get(str(params.get("sessionId")))
                if session is not None:
                    session.cancel()
            return None
        try:
            result = self.call(message["method"], params, message["id"])
        except Refused as refused:
            return {"jsonrpc": "2.0", "id": message["id"], "error": refused.error}
        return None if result is None else {"jsonrpc": "2.0", "id": message["id"], "result": result}

    def call(self, method: str, params: Any, id: Any) -> Any:
        if method == "initialize":
            version = params.get("protocolVersion")
            require(type(version) is int and 0 <= version <= 65535)
            self.capabilities = params.get("clientCapabilities")
            if not isinstance(self.capabilities, dict):
                self.capabilities = {}
            info = {"name": "raw", "version": "1.0"}
            return {"protocolVersion": 1, "agentCapabilities": {}, "agentInfo": info}
        if method not in ("session/new", "session/prompt"):
            raise Refused(-32601 if self.capabilities is not None or method[0] == "_" else -32600)
        if self.capabilities is None:
            raise Refused(-32600)
        require(isinstance(params, dict))
        return self.new_session(params) if method == "session/new" else self.prompt(params, id)

    def new_session(self, params: dict[str, Any]) -> dict[str, Any]:
        require(isinstance(params.get("cwd"), str) and os.path.isabs(params["cwd"]))
        servers = [] if params.get("mcpServers") is None else params["mcpServers"]
        require(isinstance(servers, list))
        for server in servers:
            require(isinstance(server, dict) and "type" not in server)
            require(all(isinstance(server.get(name), str) for name in ("name", "command")))
            require(all(isinstance(server.get(name), list | None) for name in ("args", "env")))
        id = f"session-{len(self.sessions) + 1}"
        self.sessions[id] = Session(self, id, params)
        return {"sessionId": id}

    def prompt(self, params: dict[str, Any], id: Any) -> None:
        require(isinstance(params.get("sessionId"), str) and isinstance(params.get("prompt"), list))
        texts: list[str] = []
        for block in params["prompt"]:
            require(isinstance(block, dict) and block.get("type") in ("text", "resource_link"))
            require(isinstance(block.get("text" if block["type"] == "text" else "uri"), str))
            texts.append(block.get("text", ""))
        session = self.sessions.get(params["sessionId"])
        if session is None:
            raise Refused(-32002, {"sessionId": params["sessionId"]})
        if session.turn is not None:
            raise Refused(-32600)
        session.cancelled.clear()
        session.waiting.clear()
        session.turn = threading.Thread(target=session.run, args=(id, " ".join(texts)), daemon=True)
        session.turn.start()


if __name__ == "__main__":
    Agent().serve()
