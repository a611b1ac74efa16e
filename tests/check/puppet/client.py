"""A client that keeps every rule, or breaks one: small, spoken by hand, in memory."""

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.check.puppet.defects import MUTATIONS, deadly
from tests.check.puppet.desk import Desk, Refuse, Terminal
from tests.check.puppet.words import capabilities, initialize, new_session, readable, servers

from accord.check.client.launch import Order
from accord.clock import Clock
from accord.schema.jsontext import NotJson, parse_json

Message = dict[str, Any]


class Crash(Exception):
    """The process dies."""


class Failed(Exception):
    """The turn failed; what to tell, and the exit code."""


class ModelClient:
    """One run: handshake, session, turn, end."""

    wire: Any
    connect: Callable[..., Any]

    def __init__(self, order: Order, broken: Any, lacks: tuple[str, ...], clock: Clock) -> None:
        self.order = order
        self.broken = broken
        self.lacks = lacks
        self.clock = clock
        self.folder = Path(order.folder)
        self.strict = "strict" in order.words and broken != 391
        self.output = ""
        self.session = ""
        self.children: set[str] = set()
        self.agent: Message = {}
        self.cancelled = asyncio.Event()
        self.logged_in = asyncio.Event()
        self.leaving: list[Terminal] = []
        self.desk = Desk(self)
        self.calls: set[str] = set()
        self.prompting = False
        self.over = False
        self.opened = False
        self._last = ""
        self._interrupts = 0
        self._asked: dict[Any, asyncio.Future[Any]] = {}
        self._known: set[Any] = set()
        self._serving: dict[Any, asyncio.Task[None]] = {}
        self._later: list[Callable[[], None]] = []
        self._broke: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._broke.add_done_callback(lambda broke: broke.cancelled() or broke.exception())

    def breaks(self, rule: Any) -> bool:
        return rule is not None and self.broken == rule

    def told(self, word: str) -> str:
        """What the command line says of it: the value, the word itself, or nothing."""
        for given in self.order.words:
            name, _, value = given.partition("=")
            if name == word:
                return value or name
        return ""

    def has(self, path: str) -> bool:
        found: Any = self.agent.get("agentCapabilities")
        for name in path.split("."):
            found = found.get(name) if isinstance(found, dict) else None
        return found is True or isinstance(found, dict)

    # -- the wire

    def crash(self) -> None:
        if not self._broke.done():
            self._broke.set_exception(Crash())
        self.wire.close()
        raise Crash

    def send(self, message: Message) -> None:
        whole = MUTATIONS.get(self.broken, lambda one: one)({"jsonrpc": "2.0", **message})
        if whole is None:
            return
        indent = 1 if self.breaks(4) and "\\n" in json.dumps(message) else None
        text = json.dumps(whole, ensure_ascii=False, indent=indent)
        if self.breaks(2) and message.get("method") == "initialize":
            self.wire.put(b"debug: hello\n")
        if self.breaks(30) and message.get("method") == "session/prompt":
            self.wire.put(b"[]\n")
        if self.breaks("fault-slow") and len(self.wire.held) > 1000:
            return
        self.wire.put(text.encode("ascii" if self.breaks(6) else "utf-8", "replace") + b"\n")

    def notify(self, method: str, params: Any) -> None:
        self.send({"method": method, "params": params})

    async def ask(self, method: str, params: Any) -> Any:
        id = len(self._known) + 1
        self._known.add(id)
        self._asked[id] = asyncio.get_running_loop().create_future()
        self.send({"id": id, "method": method, "params": params})
        await asyncio.wait((self._asked[id], self._broke), return_when=asyncio.FIRST_COMPLETED)
        if self._broke.done():
            self._broke.result()
        return self._asked[id].result()

    def lost(self, wire: Any) -> None:
        """An agent is gone."""
        if wire is not self.wire:
            self.logged_in.set()
            return
        hangs = (self.breaks(37) and self.prompting) or (self.breaks("fault-dies") and not self.prompting)
        if not hangs and not self._broke.done() and not self.over:
            self._broke.set_exception(Failed("the agent is gone", 3))

    def heard(self, frame: bytes) -> None:
        with suppress(Crash):
            self._heard(frame)

    def _heard(self, frame: bytes) -> None:
        if self.breaks("fault-huge") and len(frame) > 1_000_000:
            self.crash()
        try:
            message = parse_json(frame)
        except NotJson:
            message = None
        if not isinstance(message, dict) or not ({"method", "result", "error"} & set(message)):
            if self.breaks(22) or self.breaks("fault-noise"):
                self._broke.set_exception(Failed("", 1))
                self.wire.close()
            return
        deadly(self, message)
        if "method" in message:
            self._call(message)
        else:
            self._answered(message)

    def _answered(self, message: Message) -> None:
        id = message.get("id")
        future = self._asked.get(id) if isinstance(id, (int, str)) and not isinstance(id, bool) else None
        if future is None or future.done():
            rule = "fault-twice" if future is not None else "fault-unknown-ids"
            if self.breaks(rule):
                self.crash()
            return
        if "error" in message:
            future.set_exception(Refuse(message["error"]["code"], str(message["error"]["message"])))
            future.exception()
        elif self.breaks("fault-reordered") and self._last == "session/request_permission":
            pass  # it waits on
        else:
            self.opened = self.opened or "sessionId" in (message.get("result") or {})
            future.set_result(message.get("result"))

    def _call(self, message: Message) -> None:
        method, params, id = message.get("method"), message.get("params"), message.get("id")
        self._last = str(method)
        if "id" not in message:
            self._noted(method, params)
        elif self.breaks(158) and self.prompting:
            pass  # once the turn is over
        else:
            self._serving[id] = asyncio.get_running_loop().create_task(self._serve(id, str(method), params))

    async def _serve(self, id: Any, method: str, params: Any) -> None:
        answer: Message
        try:
            answer = {"result": await self.desk.serve(method, params)}
        except Refuse as refused:
            answer = {"error": {"code": refused.code, "message": str(refused)}}
            if refused.data is not None:
                answer["error"]["data"] = refused.data
        except Crash:
            return
        except asyncio.CancelledError:
            if self.breaks(51):
                return
            answer = {"error": {"code": -32603 if self.breaks(55) else -32800, "message": "cancelled"}}
        self.send({"id": str(id) if self.breaks(10) and id == 0 else id, **answer})
        if self.breaks(12) and method == "_test/x":
            self.send({"id": id, **answer})

    def _noted(self, method: Any, params: Any) -> None:
        if method == "session/update":
            self._update(params)
        elif method == "$/cancel_request":
            task = self._serving.get(params["requestId"])
            if task is not None and not task.done():
                task.cancel()
        elif method == "auth/status_update" and self.breaks(363):
            self.output += str(params)
        elif method == "_test/n" and self.breaks(14):
            self.send({"id": None, "result": {}})

    def _update(self, params: Any) -> None:
        update = readable(params, repair=not self.strict and not self.breaks("dialects"))
        if update is None:
            return
        kind, text = update.get("sessionUpdate"), update.get("content")
        if kind == "agent_message_chunk" and isinstance(text, dict) and isinstance(text.get("text"), str):
            if not (self.breaks(393) and "\ufffd" in text["text"]):
                self.output += text["text"]
        elif kind == "notice" and not self.breaks(314) and "notices" not in self.lacks:
            self.output += str(update.get("title"))
        elif kind == "subagent_update":
            self.children.add(update["sessionId"])

    # -- what it does

    def interrupt(self) -> None:
        """Ctrl-C."""
        self._interrupts += 1
        if self._interrupts > 1:
            if not self.breaks("fault-stalls") and not self._broke.done():
                self._broke.set_exception(Failed("stopped", 130))
            return
        self._cancel()
        if self.breaks(167):
            self._broke.set_exception(Failed("stopped", 130))
            self.wire.close()

    def _cancel(self) -> None:
        self.cancelled.set()
        for task in self._serving.values():
            if not task.done() and not self.told("ask"):
                task.cancel()
        if self.breaks(160):
            self.send({"id": "cancel", "method": "session/cancel", "params": {"sessionId": self.session}})
        else:
            self.notify("session/cancel", {"sessionId": self.session})

    async def run(self) -> int:
        try:
            await self._shake_hands()
            await self._open()
            return await self._turn()
        except Failed as failed:
            self.output += str(failed.args[0])
            return int(failed.args[1])
        except Refuse as refused:
            self.output += str(refused)
            return 1
        finally:
            self.over = True
            self.wire.close()

    async def _shake_hands(self) -> None:
        if self.breaks(58):
            await self.ask("session/new", {"cwd": str(self.folder), "mcpServers": []})
        answer = await self.ask("initialize", initialize(self.broken, capabilities(self.lacks)))
        self.agent = answer
        if answer.get("protocolVersion") != 1 and not self.breaks(64):
            raise Failed("another version", 3)
        if self.breaks(33) and "zzz" in answer:
            self.crash()
        if self.breaks(75) and "agentInfo" not in answer:
            self.crash()

    async def _open(self) -> None:
        bare, odd = "agentCapabilities" not in self.agent, self.agent.get("agentCapabilities", {})
        odd = odd.get("sessionCapabilities") is False
        if (self.breaks(69) and bare) or (self.breaks(71) and odd):
            await self.ask("session/list", {})
        if self.told("newest"):
            await self._newest()
        if self.told("delete") and (self.has("sessionCapabilities.delete") or self.breaks(126)):
            await self.ask("session/delete", {"sessionId": self.told("delete")})
        old = self.told("session")
        params = new_session(self)
        if old and (self.has("sessionCapabilities.resume") or self.breaks(109)):
            self.session = old
            await self.ask("session/resume", {"sessionId": old, **params})
        elif old and (self.has("loadSession") or self.breaks(103)):
            self.session = old
            loaded = await self.ask("session/load", {"sessionId": old, **params})
            if loaded is None and self.breaks(107):
                self.crash()
        elif old:
            raise Failed("it has no such session", 2)
        else:
            await self._new({**params, "mcpServers": servers(self)})

    async def _new(self, params: Message) -> None:
        try:
            opened = await self.ask("session/new", params)
        except Refuse as refused:
            if refused.code != -32000 or self.breaks(84):
                raise
            opened = await self._sign_in(params)
        self.session = opened["sessionId"]
        await self._choose(opened)

    async def _sign_in(self, params: Message) -> Message:
        methods = self.agent.get("authMethods", [])
        self.output += " ".join(one["name"] for one in methods)
        for one in methods:
            spoiled = one.get("type") == "terminal" and not isinstance(one.get("args"), list)
            if one.get("type") == "terminal" and not spoiled and not self.breaks(79):
                return await self._login(one, params)
            if spoiled and not self.breaks(329):
                continue
            with suppress(Refuse):
                await self.ask("authenticate", {"methodId": "agent" if self.breaks(81) else one["id"]})
                return await self.ask("session/new", params)
        raise Failed("sign in first", 6)

    async def _login(self, method: Message, params: Message) -> Message:
        """At a terminal: the agent's program with more words; then everything from the start."""
        self.connect(
            [*method["args"], *(["extra"] if self.breaks(80) else [])], method["env"]["ACCORD_CHECK_LOGIN"]
        )
        await self.logged_in.wait()
        self.wire.close()
        self.wire = self.connect([])
        await self._shake_hands()
        return await self.ask("session/new", params)

    async def _newest(self) -> None:
        if not self.has("sessionCapabilities.list") and not self.breaks(116):
            raise Failed("it has no list", 2)
        archived = {"archived": "include"} if self.has("sessionCapabilities.archive") else {}
        page = await self.ask("session/list", archived)
        for _ in range(2):
            cursor = page.get("nextCursor", "again" if self.breaks(121) else None)
            if cursor is None:
                break
            kept = {} if self.breaks(339) else archived
            page = await self.ask(
                "session/list", {**kept, "cursor": cursor.strip('"é') if self.breaks(122) else cursor}
            )

    async def _choose(self, opened: Message) -> None:
        options = {one["id"]: one for one in opened.get("configOptions", [])}
        modes = [one["id"] for one in opened.get("modes", {}).get("availableModes", [])]
        if self.breaks(221) and any(one["type"] == "slider" for one in options.values()):
            self.crash()
        mode = self.told("mode")
        if mode and "mode" in options and not self.breaks(224):
            await self._set("mode", mode)
        elif mode and (mode in modes or self.breaks(207)) and not self.breaks(226):
            await self.ask("session/set_mode", {"sessionId": self.session, "modeId": mode})
        elif mode:
            raise Failed("there is no such mode", 2)
        name, _, value = self.told("option").partition("=")
        if name == "flag":
            typed = {"type": "boolean"} if not self.breaks(218) else {}
            await self._set(name, "true" if self.breaks(218) else True, **typed)
        elif name and not self.breaks(222):
            await self._set(name, value)

    async def _set(self, option: str, value: Any, **more: Any) -> None:
        params = {"sessionId": self.session, "configId": option, "value": value, **more}
        await self.ask("session/set_config_option", params)

    async def _unasked(self) -> None:
        """What it does by itself after a turn, where the agent can."""
        named = {"sessionId": self.session}
        for rule, gate, method, params in (
            (341, "sessionCapabilities.status", "session/status", named),
            (346, "sessionCapabilities.title", "session/set_title", {**named, "title": "A title"}),
            (282, "sessionCapabilities.fork", "session/fork", {**named, "cwd": str(self.folder)}),
            (330, "sessionCapabilities.archive", "session/archive", named),
            (295, "providers", "providers/list", {}),
            (357, "auth.status", "auth/status", {}),
            (113, "sessionCapabilities.close", "session/close", named),
            (86, "auth.logout", "logout", {}),
        ):
            if "agentCapabilities" in self.agent and (self.has(gate) or self.breaks(rule)):
                with suppress(Refuse):
                    await self.ask(method, params)

    async def _turn(self) -> int:
        if self.breaks(45):
            self.notify("custom/hello", {})
        self.notify("_model/hello", {})
        text = self.order.prompt.lstrip("/") if self.breaks(229) else self.order.prompt
        prompt: list[Message] = [{"type": "text", "text": text}]
        path = self.told("attach")
        if path.endswith(".png") and (self.has("promptCapabilities.image") or self.breaks(141)):
            prompt.append({"type": "image", "data": "AA==", "mimeType": "image/png"})
        self.prompting = True
        if self.told("deadline"):
            self.clock.call_later(1.0, self._give_up)
        answer = await self.ask("session/prompt", {"sessionId": self.session, "prompt": prompt})
        self.prompting = False
        stop = answer.get("stopReason")
        if stop == "refusal" and not self.breaks(153):
            self.output += "it refused"
        if stop == "tool_use" and self.breaks(154):
            await asyncio.Event().wait()
        await self._unasked()
        return 0

    def _give_up(self) -> None:
        if not self.breaks(159):
            self._cancel()
        if not self._broke.done():
            self.clock.call_later(
                1.0, lambda: self._broke.done() or self._broke.set_exception(Failed("time is up", 4))
            )

    async def leave(self) -> None:
        """End what it started."""
        for task in self._serving.values():
            task.cancel()
        await asyncio.gather(*self._serving.values(), return_exceptions=True)
        for terminal in [*self.desk.terminals.values(), *self.leaving]:
            terminal.kill()
            await terminal.wait()
