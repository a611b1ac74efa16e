"""Sessions of the model agent: open, list, close, fork and archive them, and take their prompts."""

import asyncio
import subprocess
from typing import TYPE_CHECKING, Any

from tests.check.model_agent.connection import ErrorResponse
from tests.check.model_agent.state import MODES, Message, Session, absolute, modes, options
from tests.patience import PATIENCE

if TYPE_CHECKING:
    from tests.check.model_agent.agent import ModelAgent

PAGE = 20


class Sessions:
    """The sessions of one connection, in the store of its home folder."""

    def __init__(self, agent: "ModelAgent") -> None:
        self.agent = agent
        self.breaks = agent.breaks
        self.open: dict[str, Session] = {}
        self.served: dict[str, Any] = {
            f"session/{name}": getattr(self, name)
            for name in (
                *("new", "load", "resume", "fork", "close", "list", "delete", "archive", "unarchive"),
                *("status", "set_title", "set_mode", "set_config_option", "prompt"),
            )
        }
        self.cancelled_idle: set[str] = set()

    # -- open

    def check_open_params(self, params: Message, *, new: bool) -> None:
        """Reject params that cannot open a session."""
        agent, breaks = self.agent, self.breaks
        cwd = params.get("cwd")
        if not isinstance(cwd, str) and not (breaks("framing.agent-invalid-params") and new and cwd is None):
            raise ErrorResponse(-32602)
        if (
            not absolute(cwd)
            and not breaks("session.relative-cwd-refused")
            and not breaks("framing.agent-invalid-params")
        ):
            raise ErrorResponse(-32602)
        self.check_servers(params)
        roots = params.get("additionalDirectories")
        bad = roots is not None and not (isinstance(roots, list) and all(absolute(root) for root in roots))
        excused = (breaks("session.roots-invalid-refused") and roots == ["x"]) or (
            breaks("session.roots-invalid-on-load") and roots == [5] and not new
        )
        if bad and not excused:
            raise ErrorResponse(-32602)
        if roots == ["/forbidden"] and not breaks("session.roots-forbidden-refused"):
            raise ErrorResponse(-32602)
        if breaks("session.null-reads-as-empty") and "additionalDirectories" in params and roots is None:
            raise ErrorResponse(-32602)
        system = params.get("systemPrompt")
        if system is not None and not breaks("system-prompt.invalid-refused"):
            valid = isinstance(system, dict) and system.get("mode") in ("append", "override")
            if not valid or any(block["type"] != "text" for block in system["content"]):
                raise ErrorResponse(-32602)
        agent.require_login()

    def check_servers(self, params: Message) -> None:
        servers = params.get("mcpServers") or []
        if servers == {} and (not self.agent.strict or self.breaks("accord.agent-strict-mode")):
            return
        if (
            self.agent.strict
            and params.get("mcpServers") == {}
            and not self.breaks("accord.agent-strict-mode")
        ):
            raise ErrorResponse(-32602)
        if self.breaks("session.mcp-servers-invalid-refused") and servers == "x":
            return
        if not isinstance(servers, list):
            raise ErrorResponse(-32602)
        for server in servers:
            if not isinstance(server, dict) or not ("command" in server or "type" in server):
                raise ErrorResponse(-32602)
            if isinstance(server.get("env"), dict) and self.agent.strict:
                raise ErrorResponse(-32602)

    def settings_of(self, session: Session) -> Message:
        boolean = self.agent.offers("session", "configOptions", "boolean") or self.breaks(
            "option.boolean-needs-capability"
        )
        return {"modes": modes(session), "configOptions": options(session, boolean=boolean)}

    async def new(self, params: Message) -> Any:
        self.check_open_params(params, new=True)
        store = self.agent.store
        number = 1 if self.breaks("session.unique-id") else len(store.sessions) + 1
        session = Session(f"s{number}", params.get("cwd") or "/")
        self.mark_open(session, params)
        store.add(session)
        await self.start_servers(params.get("mcpServers") or [], session)
        commands = [{"name": "hello", "description": "Says hello", "input": {"hint": "who"}}]
        self.agent.notify("_model/ready", {})
        if self.breaks("framing.agent-no-batch"):
            self.agent.send_raw(b'[{"jsonrpc":"2.0","method":"_model/ready","params":{}}]')
        answer = {"sessionId": session.id, **self.settings_of(session)}
        asyncio.get_running_loop().call_soon(
            self.agent.turns.update,
            session,
            {"sessionUpdate": "available_commands_update", "availableCommands": commands},
        )
        return answer

    def mark_open(self, session: Session, params: Message) -> None:
        roots = params.get("additionalDirectories")
        forgotten = not (self.breaks("session.roots-not-kept") and roots is None)
        if forgotten:
            session.roots = roots or []
        system = params.get("systemPrompt")
        session.system = (
            "".join(block.get("text", "") for block in system["content"]) if isinstance(system, dict) else ""
        )
        if (
            isinstance(system, dict)
            and system.get("mode") == "override"
            and self.breaks("system-prompt.override-keeps-permissions")
        ):
            session.always_allowed = True
        session.open = True
        self.open[session.id] = session

    async def start_servers(self, servers: Any, session: Session) -> None:
        if self.breaks("session.stdio-mcp-server") or not isinstance(servers, list):
            return
        for server in servers[: 1 if self.breaks("session.every-mcp-server") else None]:
            if server.get("type") == "acp":
                session.acp = server["serverId"]
            elif server.get("command", "").startswith("/nonexistent"):
                session.values["broken"] = True
            else:
                await asyncio.to_thread(_initialize_server, [server["command"], *(server.get("args") or [])])

    def find_session(self, params: Message, *, store: bool = True) -> Session:
        id = params.get("sessionId")
        if not isinstance(id, str):
            raise ErrorResponse(-32602)
        found = self.agent.store.sessions.get(id) if store else self.open.get(id)
        if found is None:
            code = -32602 if self.breaks("accord.agent-unknown-session") else -32002
            raise ErrorResponse(code, data={"sessionId": id})
        return found

    async def load(self, params: Message) -> Any:
        if self.breaks("session.load-exists") and params.get("sessionId") == "nope":
            return {}
        session = self.find_session(params)
        self.check_open_params(params, new=False)
        self.mark_open(session, params)
        history = [
            one
            for one in session.history
            if not (self.breaks("session.load-replays") and one["sessionUpdate"].startswith("agent"))
        ]
        if self.breaks("notice.not-replayed") and self.agent.offers("session", "notices"):
            history = [{"sessionUpdate": "notice", "severity": "info", "title": "Again"}, *history]
        if self.breaks("session.load-answers-last"):
            asyncio.get_running_loop().call_soon(self.replay, session, history)
        else:
            self.replay(session, history)
        return None if self.breaks("session.load-result-object") else self.settings_of(session)

    def replay(self, session: Session, history: list[Message]) -> None:
        for update in history:
            self.agent.turns.update(session, dict(update))

    async def resume(self, params: Message) -> Any:
        session = self.find_session(params)
        if self.breaks("session.resume-without-mcp-servers") and "mcpServers" not in params:
            raise ErrorResponse(-32602)
        self.check_open_params(params, new=False)
        self.mark_open(session, params)
        if self.breaks("session.resume-without-history"):
            self.replay(session, session.history)
        if self.breaks("session.resume-keeps-context"):
            session.word = "none"
        return self.settings_of(session)

    async def fork(self, params: Message) -> Any:
        source = self.find_session(params)
        self.check_open_params(params, new=False)
        fork = Session(f"f{len(self.agent.store.sessions) + 1}", params["cwd"], word=source.word)
        fork.history = source.history if self.breaks("fork.new-session") else list(source.history)
        self.mark_open(fork, params)
        if self.breaks("fork.roots-not-inherited"):
            fork.roots = source.roots
        self.agent.store.add(fork)
        return {"sessionId": fork.id, **self.settings_of(fork)}

    # -- list

    async def list(self, params: Message) -> Any:
        cursor = str(params["cursor"]) if params.get("cursor") is not None else None
        archived = params.get("archived", "exclude")
        if cursor is not None and not cursor.isdigit() and not self.breaks("session.list-invalid-cursor"):
            raise ErrorResponse(-32602)
        if archived not in ("exclude", "include", "only") and not self.breaks(
            "archive.filter-invalid-refused"
        ):
            raise ErrorResponse(-32602)
        store, cwd = self.agent.store, params.get("cwd")
        store.list_calls += 1
        if self.breaks("session.list-empty") and cwd == "/nonexistent/check":
            raise ErrorResponse(-32602)
        known = list(store.sessions.values())
        if cwd is not None and not (
            self.breaks("session.list-cwd-filter") and any(one.cwd == cwd for one in known)
        ):
            known = [one for one in known if one.cwd == cwd]
        if self.breaks("archive.hides"):
            archived = "include" if archived == "exclude" else archived
        if self.breaks("archive.filter") and archived == "only":
            archived = "include"
        if archived in ("exclude", "only"):
            known = [one for one in known if one.archived == (archived == "only")]
        if self.breaks("session.list-changes-nothing") and store.list_calls > 3:
            known = known[:-1]
        place = int(cursor) if cursor is not None and cursor.isdigit() else 0
        page = known[place : place + PAGE]
        more = {"nextCursor": str(place + PAGE)} if place + PAGE < len(known) else {}
        return {"sessions": [self.entry(one) for one in page], **more}

    def entry(self, session: Session) -> Message:
        title = {"title": session.title} if session.title else {}
        return {"sessionId": session.id, "cwd": session.cwd, "archived": session.archived, **title}

    # -- close

    async def close(self, params: Message) -> Any:
        if self.breaks("initialize.advertised-methods") and params.get("sessionId") == "nope":
            raise ErrorResponse(-32601)
        session = self.find_session(params, store=False)
        await self.stop(session)
        session.open = self.breaks("session.closed-refuses-prompts")
        if not self.breaks("session.closed-refuses-prompts"):
            self.open.pop(session.id)
        return {}

    async def stop(self, session: Session) -> None:
        if session.turn is not None:
            self.agent.turns.cancel(
                session,
                "refusal"
                if self.breaks("session.close-cancels-turn") or self.breaks("archive.cancels-turn")
                else "cancelled",
            )
            await asyncio.wait([session.turn])

    async def delete(self, params: Message) -> Any:
        if params["sessionId"] not in self.agent.store.sessions and self.breaks(
            "session.delete-missing-succeeds"
        ):
            raise ErrorResponse(-32002, data={"sessionId": params["sessionId"]})
        if not self.breaks("session.delete-leaves-list"):
            self.agent.store.sessions.pop(params["sessionId"], None)
        self.open.pop(params["sessionId"], None)
        return {}

    async def archive(self, params: Message) -> Any:
        session = self.find_session(params)
        if session.archived and self.breaks("archive.idempotent"):
            raise ErrorResponse(-32600)
        await self.stop(session)
        session.archived = True
        self.open.pop(session.id, None)
        return {}

    async def unarchive(self, params: Message) -> Any:
        session = self.find_session(params)
        session.archived = False
        if self.breaks("archive.unarchive-opens-nothing"):
            self.open[session.id] = session
        return {}

    # -- settings

    async def status(self, params: Message) -> Any:
        if self.breaks("status.unknown-session") and params.get("sessionId") == "nope":
            return {"status": "saved"}
        session = self.find_session(params)
        status = "open" if session.id in self.open or self.breaks("status.open-or-saved") else "saved"
        if self.breaks("status.changes-nothing"):
            self.open[session.id] = session
        return {"status": status}

    async def set_title(self, params: Message) -> Any:
        title = params.get("title")
        if not isinstance(title, str) or (not title.strip() and not self.breaks("title.invalid-refused")):
            raise ErrorResponse(-32602)
        session = self.find_session(params)
        if title.strip():
            session.title = "" if self.breaks("title.stored") else title
        return {"title": title.strip()}

    async def set_mode(self, params: Message) -> Any:
        session = self.find_session(params, store=False)
        if params["modeId"] not in MODES and not self.breaks("mode.unknown-refused"):
            raise ErrorResponse(-32603 if self.breaks("accord.unknown-value") else -32602)
        if self.breaks("mode.set") or (self.breaks("prompt.requests-during-turn") and session.turn):
            raise ErrorResponse(-32603)
        session.mode = params["modeId"] if params["modeId"] in MODES else session.mode
        if not self.breaks("option.follows-mode"):
            self.agent.turns.send_options(session)
        return None if self.breaks("framing.agent-empty-results") else {}

    async def set_config_option(self, params: Message) -> Any:
        session = self.find_session(params, store=False)
        known = {option["id"]: option for option in options(session, boolean=True)}
        option = known.get(params["configId"])
        if option is None:
            if self.breaks("option.unknown-refused"):
                return {"configOptions": self.settings_of(session)["configOptions"]}
            raise ErrorResponse(-32603 if self.breaks("accord.unknown-value") else -32602)
        values = [one.get("value") for one in option.get("options", [])]
        if option["id"] not in ("level", "fast") and params["value"] not in values:
            raise ErrorResponse(-32603 if self.breaks("accord.unknown-value") else -32602)
        if self.breaks("option.select-without-type") and "type" in params:
            raise ErrorResponse(-32602)
        session.values[option["id"]] = params["value"]
        if option["id"] == "mode":
            session.mode = params["value"]
            update = {"sessionUpdate": "current_mode_update", "currentModeId": session.mode}
            self.agent.turns.update(session, update)
        return {"configOptions": self.settings_of(session)["configOptions"]}

    # -- prompts

    def cancel(self, params: Message) -> None:
        session = self.open.get(params["sessionId"])
        if session is not None and session.turn is not None:
            self.agent.turns.cancel(session)
        elif session is not None:
            self.cancelled_idle.add(session.id)

    async def prompt(self, params: Message) -> Any:
        if self.breaks("prompt.unknown-session-refused") and params.get("sessionId") == "nope":
            return {"stopReason": "end_turn"}
        session = self.find_session(params, store=False)
        return await self.agent.turns.handle_prompt(session, params)


def _initialize_server(command: list[str]) -> None:
    """Start an MCP server, send it `initialize`, and end it."""
    hello = '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}\n'
    subprocess.run(command, input=hello.encode(), stdout=subprocess.DEVNULL, check=False, timeout=PATIENCE)
