"""The model client: a small client in memory that keeps every rule, or breaks one."""

import asyncio
from contextlib import suppress
from typing import Any

from tests.check.model_client.connection import Connection, TurnFailed
from tests.check.model_client.messages import capabilities, initialize, new_session, servers
from tests.check.model_client.request_handlers import ErrorResponse

Message = dict[str, Any]


class ModelClient(Connection):
    """One run: handshake, session, turn, end."""

    def interrupt(self) -> None:
        """React to Ctrl-C."""
        self._interrupts += 1
        if self._interrupts > 1:
            if not self.breaks("fault-stalls") and not self._failure.done():
                self._failure.set_exception(TurnFailed("stopped", 130))
            return
        self._cancel()
        if self.breaks("cancel.late-updates-applied"):
            self._failure.set_exception(TurnFailed("stopped", 130))
            self.pipe.close()

    def _cancel(self) -> None:
        self.cancelled.set()
        for task in self._serving.values():
            if not task.done() and not self.option("ask"):
                task.cancel()
        if self.breaks("cancel.notification"):
            self.send({"id": "cancel", "method": "session/cancel", "params": {"sessionId": self.session}})
        else:
            self.notify("session/cancel", {"sessionId": self.session})

    async def run(self) -> int:
        try:
            await self._handshake()
            await self._open()
            return await self._turn()
        except TurnFailed as failed:
            self.output += str(failed.args[0])
            return int(failed.args[1])
        except ErrorResponse as refused:
            self.output += str(refused)
            return 1
        finally:
            self.over = True
            self.pipe.close()

    async def _handshake(self) -> None:
        if self.breaks("initialize.first"):
            await self.ask("session/new", {"cwd": str(self.folder), "mcpServers": []})
        answer = await self.ask("initialize", initialize(self.broken, capabilities(self.lacks)))
        self.agent = answer
        if answer.get("protocolVersion") != 1 and not self.breaks("initialize.unsupported-version"):
            raise TurnFailed("another version", 3)
        if self.breaks("framing.client-extra-members") and "zzz" in answer:
            self.crash()
        if self.breaks("initialize.minimal-agent") and "agentInfo" not in answer:
            self.crash()

    async def _open(self) -> None:
        no_capabilities, declared = (
            "agentCapabilities" not in self.agent,
            self.agent.get("agentCapabilities", {}),
        )
        bad_sessions = declared.get("sessionCapabilities") is False
        if (self.breaks("initialize.missing-agent-capability") and no_capabilities) or (
            self.breaks("initialize.client-malformed-capability") and bad_sessions
        ):
            await self.ask("session/list", {})
        if self.option("newest"):
            await self._newest()
        if self.option("delete") and (
            self.has("sessionCapabilities.delete") or self.breaks("session.delete-needs-capability")
        ):
            await self.ask("session/delete", {"sessionId": self.option("delete")})
        old = self.option("session")
        params = new_session(self)
        if old and (self.has("sessionCapabilities.resume") or self.breaks("session.resume-needs-capability")):
            self.session = old
            await self.ask("session/resume", {"sessionId": old, **params})
        elif old and (self.has("loadSession") or self.breaks("session.load-needs-capability")):
            self.session = old
            loaded = await self.ask("session/load", {"sessionId": old, **params})
            if loaded is None and self.breaks("session.load-null-result"):
                self.crash()
        elif old:
            raise TurnFailed("it has no such session", 2)
        else:
            await self._new({**params, "mcpServers": servers(self)})

    async def _new(self, params: Message) -> None:
        try:
            opened = await self.ask("session/new", params)
        except ErrorResponse as refused:
            if refused.code != -32000 or self.breaks("auth.offers-login"):
                raise
            opened = await self._sign_in(params)
        self.session = opened["sessionId"]
        await self._choose(opened)

    async def _sign_in(self, params: Message) -> Message:
        methods = self.agent.get("authMethods", [])
        self.output += " ".join(one["name"] for one in methods)
        for one in methods:
            invalid_args = one.get("type") == "terminal" and not isinstance(one.get("args"), list)
            if (
                one.get("type") == "terminal"
                and not invalid_args
                and not self.breaks("auth.terminal-method-not-authenticated")
            ):
                return await self._login(one, params)
            if invalid_args and not self.breaks("auth.invalid-terminal-method"):
                continue
            with suppress(ErrorResponse):
                await self.ask(
                    "authenticate",
                    {"methodId": "agent" if self.breaks("auth.method-without-type") else one["id"]},
                )
                return await self.ask("session/new", params)
        raise TurnFailed("sign in first", 6)

    async def _login(self, method: Message, params: Message) -> Message:
        """Log in at a terminal: run the agent with extra arguments, then connect again."""
        self.connect(
            [*method["args"], *(["extra"] if self.breaks("auth.terminal-login") else [])],
            method["env"]["ACCORD_CHECK_LOGIN"],
        )
        await self.logged_in.wait()
        self.pipe.close()
        self.pipe = self.connect([])
        await self._handshake()
        return await self.ask("session/new", params)

    async def _newest(self) -> None:
        if not self.has("sessionCapabilities.list") and not self.breaks("session.list-needs-capability"):
            raise TurnFailed("it has no list", 2)
        archived = {"archived": "include"} if self.has("sessionCapabilities.archive") else {}
        page = await self.ask("session/list", archived)
        for _ in range(2):
            cursor = page.get("nextCursor", "again" if self.breaks("session.list-last-page") else None)
            if cursor is None:
                break
            filters = {} if self.breaks("archive.filter-kept-in-pages") else archived
            page = await self.ask(
                "session/list",
                {
                    **filters,
                    "cursor": cursor.strip('"é') if self.breaks("session.list-cursor-verbatim") else cursor,
                },
            )

    async def _choose(self, opened: Message) -> None:
        options = {one["id"]: one for one in opened.get("configOptions", [])}
        modes = [one["id"] for one in opened.get("modes", {}).get("availableModes", [])]
        if self.breaks("option.unknown-type") and any(one["type"] == "slider" for one in options.values()):
            self.crash()
        mode = self.option("mode")
        if mode and "mode" in options and not self.breaks("option.preferred-to-modes"):
            await self._set("mode", mode)
        elif (
            mode
            and (mode in modes or self.breaks("mode.only-listed"))
            and not self.breaks("option.modes-as-fallback")
        ):
            await self.ask("session/set_mode", {"sessionId": self.session, "modeId": mode})
        elif mode:
            raise TurnFailed("there is no such mode", 2)
        name, _, value = self.option("option").partition("=")
        if name == "flag":
            typed = {"type": "boolean"} if not self.breaks("option.boolean-value") else {}
            await self._set(name, "true" if self.breaks("option.boolean-value") else True, **typed)
        elif name and not self.breaks("option.unknown-category"):
            await self._set(name, value)

    async def _set(self, option: str, value: Any, **more: Any) -> None:
        params = {"sessionId": self.session, "configId": option, "value": value, **more}
        await self.ask("session/set_config_option", params)

    async def _own_requests(self) -> None:
        """Requests of its own after a turn, where the agent supports them."""
        session = {"sessionId": self.session}
        for rule, capability, method, params in (
            ("status.needs-capability", "sessionCapabilities.status", "session/status", session),
            (
                "title.needs-capability",
                "sessionCapabilities.title",
                "session/set_title",
                {**session, "title": "A title"},
            ),
            (
                "fork.needs-capability",
                "sessionCapabilities.fork",
                "session/fork",
                {**session, "cwd": str(self.folder)},
            ),
            ("archive.needs-capability", "sessionCapabilities.archive", "session/archive", session),
            ("provider.needs-capability", "providers", "providers/list", {}),
            ("auth-status.needs-capability", "auth.status", "auth/status", {}),
            ("session.close-needs-capability", "sessionCapabilities.close", "session/close", session),
            ("auth.logout-needs-capability", "auth.logout", "logout", {}),
        ):
            if "agentCapabilities" in self.agent and (self.has(capability) or self.breaks(rule)):
                with suppress(ErrorResponse):
                    await self.ask(method, params)

    async def _turn(self) -> int:
        if self.breaks("extension.client-known-methods"):
            self.notify("custom/hello", {})
        self.notify("_model/hello", {})
        text = self.task.prompt.lstrip("/") if self.breaks("command.sent-as-text") else self.task.prompt
        prompt: list[Message] = [{"type": "text", "text": text}]
        path = self.option("attach")
        if path.endswith(".png") and (
            self.has("promptCapabilities.image") or self.breaks("prompt.blocks-need-capability")
        ):
            prompt.append({"type": "image", "data": "AA==", "mimeType": "image/png"})
        self.prompting = True
        if self.option("deadline"):
            self.clock.call_later(1.0, self._give_up)
        answer = await self.ask("session/prompt", {"sessionId": self.session, "prompt": prompt})
        self.prompting = False
        stop = answer.get("stopReason")
        if stop == "refusal" and not self.breaks("prompt.refusal-shown"):
            self.output += "it refused"
        if stop == "tool_use" and self.breaks("prompt.unknown-stop-reason"):
            await asyncio.Event().wait()
        await self._own_requests()
        return 0

    def _time_is_up(self) -> None:
        if not self._failure.done():
            self._failure.set_exception(TurnFailed("time is up", 4))

    def _give_up(self) -> None:
        if not self.breaks("prompt.patient"):
            self._cancel()
        if not self._failure.done():
            self.clock.call_later(1.0, self._time_is_up)
