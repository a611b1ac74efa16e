"""Agents that ask at the wrong time, or for files and terminals they must not have."""

import os
import shutil
import tempfile
from typing import Final

from accord.testing.hostile.hostile_agent import PERMISSION_OPTIONS, HostileAgent, Json


def permission_params(title: str, kind: str | None = "execute", **more: object) -> Json:
    """The parameters of a permission request."""
    call: Json = {"toolCallId": "c1", "title": title, **({} if kind is None else {"kind": kind})}
    return {"toolCall": call, "options": PERMISSION_OPTIONS, **more}


class AsksAfterCancel(HostileAgent):
    """Waits for cancel, then asks for permission anyway and obeys the answer."""

    name = "asks-after-cancel"

    def prompt(self, request: Json) -> None:
        self.say("Shall I?")
        self.wait_for_cancel()
        outcome = self.ask("session/request_permission", permission_params("Delete everything", "delete"))
        self.log({"after cancel": outcome})
        self.finish(request, "cancelled")


class AsksAfterAnswer(HostileAgent):
    """Asks for permission right after it answered the prompt, outside a turn."""

    name = "asks-after-answer"

    def prompt(self, request: Json) -> None:
        self.say("Done.")
        id = self.send_request(
            "session/request_permission", permission_params("One more thing", "delete"), id="late"
        )
        self.finish(request)
        self.log({"after answer": self.answer_to(id)})


class AsksUnfairly(HostileAgent):
    """Asks for permission with allow options only, no options, equal ids, or an unknown call."""

    name = "asks-unfairly"

    def prompt(self, request: Json) -> None:
        always = {"optionId": "always", "name": "Reject", "kind": "allow_always"}
        once = {"optionId": "once", "name": "No", "kind": "allow_once"}
        rounds: dict[str, Json] = {
            "only allow": permission_params("Delete everything", "delete", options=[always, once]),
            "no options": permission_params("Delete everything", "delete", options=[]),
            "equal ids": permission_params(
                "Delete everything", "delete", options=[once, {**once, "name": "Yes", "kind": "reject_once"}]
            ),
            "unknown kind": permission_params(
                "Delete everything", "delete", options=[{"optionId": "x", "name": "X", "kind": "maybe"}]
            ),
            "no kind": permission_params("Delete everything", None),
            "kind in capitals": permission_params("Delete everything", "READ"),
        }
        for name, params in rounds.items():
            answer = self.ask("session/request_permission", params)
            chosen = self.outcome(answer).get("optionId")
            kinds = {option["optionId"]: option["kind"] for option in params["options"]}
            allowed = str(kinds.get(chosen, "")).startswith("allow")
            self.say(f"{name}: {'allowed' if allowed else 'not allowed'}\n")
        self.finish(request)


class AsksForms(HostileAgent):
    """Asks for forms with a pattern that takes forever, odd URL schemes, and unknown modes."""

    name = "asks-forms"

    def prompt(self, request: Json) -> None:
        field = {"type": "string", "pattern": "^(a+)+$", "default": "a" * 40 + "!"}
        form = {"type": "object", "properties": {"word": field}, "required": ["word"]}
        rounds: dict[str, Json] = {
            "form": {"mode": "form", "message": "Your word?", "requestedSchema": form},
            "script": {"mode": "url", "message": "Open", "url": "javascript:alert(1)", "elicitationId": "e1"},
            "file": {"mode": "url", "message": "Open", "url": "file:///etc/passwd", "elicitationId": "e2"},
            "odd mode": {"mode": "telepathy", "message": "Think"},
        }
        for name, params in rounds.items():
            answer = self.ask("elicitation/create", params)
            result: Json = answer.get("result") or {}
            action = result.get("action")
            self.say(f"{name}: {'accepted' if action == 'accept' else 'not accepted'}\n")
        self.finish(request)


TERMINAL_COUNT = 1000


class ReadsOutside(HostileAgent):
    """Asks to read `/etc/passwd`: directly, through `..`, through a link, and for another session."""

    name = "reads-outside"

    def prompt(self, request: Json) -> None:
        up = "../" * self.cwd.count("/")
        link = os.path.join(self.cwd, "innocent.txt")
        os.symlink("/etc/passwd", link)
        try:
            for path in (
                "/etc/passwd",
                f"{self.cwd}/{up}etc/passwd",
                link,
                "etc/passwd",
                "/etc/passwd\0.txt",
            ):
                self.report(f"read {path!r}", self.ask("fs/read_text_file", {"path": path}))
            other = self.ask("fs/read_text_file", {"sessionId": "another", "path": "/etc/passwd"})
            self.report("read for another session", other)
        finally:
            os.unlink(link)
        self.finish(request)


class WritesOutside(HostileAgent):
    """Asks to write outside the session's folder: directly, through `..`, through links."""

    name = "writes-outside"

    def prompt(self, request: Json) -> None:
        outside = tempfile.mkdtemp(prefix="hostile-")
        victim = os.path.join(outside, "victim.txt")
        with open(victim, "w") as file:
            file.write("untouched")
        links = [os.path.join(self.cwd, name) for name in ("link.txt", "linked")]
        os.symlink(victim, links[0])
        os.symlink(outside, links[1])
        try:
            beside = os.path.relpath(outside, self.cwd)
            for path in (
                victim,
                f"{self.cwd}/{beside}/new.txt",
                links[0],
                f"{links[1]}/new.txt",
                "/dev/full",
            ):
                answer = self.ask("fs/write_text_file", {"path": path, "content": "owned"})
                name = path.replace(outside, "OUTSIDE").replace(beside, "OUTSIDE")
                self.report(f"write {name!r}", answer)
            with open(victim) as file:
                untouched = file.read() == "untouched" and os.listdir(outside) == ["victim.txt"]
            self.say(f"outside: {'untouched' if untouched else 'CHANGED'}\n")
        finally:
            for link in links:
                os.unlink(link)
            shutil.rmtree(outside)
        self.finish(request)


class ManyTerminals(HostileAgent):
    """Asks for 1,000 terminals with endless commands, releases none, and answers."""

    name = "many-terminals"

    def prompt(self, request: Json) -> None:
        forever = {"command": "/bin/sh", "args": ["-c", "while :; do sleep 60; done"]}
        ids = [self.send_request("terminal/create", forever) for _ in range(TERMINAL_COUNT)]
        got = sum("result" in answer for answer in self.answers_to(ids))
        self.say(f"asked for {TERMINAL_COUNT} terminals, got {'some' if 0 < got < TERMINAL_COUNT else got}")
        self.finish(request)


class TerminalOutside(HostileAgent):
    """Asks for a terminal in `/etc`, one of an unknown session, and output of an unknown terminal."""

    name = "terminal-outside"

    def prompt(self, request: Json) -> None:
        create = {"command": "/bin/cat", "args": ["passwd"]}
        self.report("in /etc", self.ask("terminal/create", {**create, "cwd": "/etc"}))
        self.report("of another session", self.ask("terminal/create", {**create, "sessionId": "another"}))
        self.report("output of nothing", self.ask("terminal/output", {"terminalId": "t999"}))
        self.finish(request)


BEHAVIORS: Final[tuple[type[HostileAgent], ...]] = (
    AsksAfterCancel, AsksAfterAnswer, AsksUnfairly, AsksForms, ReadsOutside, WritesOutside, ManyTerminals,
    TerminalOutside,
)  # fmt: skip
