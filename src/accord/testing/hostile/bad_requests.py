"""Agents that ask at the wrong time, or for files and terminals they must not have."""

import os
import shutil
import tempfile
from typing import Final

from accord.testing.hostile.hostile_agent import YES_NO, HostileAgent, Json

# MERGED testing.hostile.asking: Agents that ask for permission at the wrong time, or so that only yes can be said; and such that ask for forms.


def question(title: str, kind: str | None = "execute", **more: object) -> Json:
    """The parameters of a permission request."""
    call: Json = {"toolCallId": "c1", "title": title, **({} if kind is None else {"kind": kind})}
    return {"toolCall": call, "options": YES_NO, **more}


class AsksAfterCancel(HostileAgent):
    """Waits to be cancelled, then asks for permission all the same, and obeys whatever it hears."""

    habit = "asks-after-cancel"

    def prompt(self, asked: Json) -> None:
        """The only right answer is `cancelled`."""
        self.say("Shall I?")
        self.wait_for_cancel()
        outcome = self.ask("session/request_permission", question("Delete everything", "delete"))
        self.note({"after cancel": outcome})
        self.finish(asked, "cancelled")


class AsksAfterAnswer(HostileAgent):
    """Asks for permission right after it has answered the prompt, when no turn runs."""

    habit = "asks-after-answer"

    def prompt(self, asked: Json) -> None:
        """Who would say yes to that?"""
        self.say("Done.")
        id = self.begin("session/request_permission", question("One more thing", "delete"), id="late")
        self.finish(asked)
        self.note({"after answer": self.answer_to(id)})


class AsksUnfairly(HostileAgent):
    """Asks for permission with options that only allow, with none at all, with ids that are equal, and for an unknown call."""

    habit = "asks-unfairly"

    def prompt(self, asked: Json) -> None:
        """Each answer is said; anything but a yes is fine."""
        always = {"optionId": "always", "name": "Reject", "kind": "allow_always"}
        once = {"optionId": "once", "name": "No", "kind": "allow_once"}
        rounds: dict[str, Json] = {
            "only allow": question("Delete everything", "delete", options=[always, once]),
            "no options": question("Delete everything", "delete", options=[]),
            "equal ids": question(
                "Delete everything", "delete", options=[once, {**once, "name": "Yes", "kind": "reject_once"}]
            ),
            "unknown kind": question(
                "Delete everything", "delete", options=[{"optionId": "x", "name": "X", "kind": "maybe"}]
            ),
            "no kind": question("Delete everything", None),
            "kind in capitals": question("Delete everything", "READ"),
        }
        for name, params in rounds.items():
            answer = self.ask("session/request_permission", params)
            chosen = self.outcome(answer).get("optionId")
            kinds = {option["optionId"]: option["kind"] for option in params["options"]}
            allowed = str(kinds.get(chosen, "")).startswith("allow")
            self.say(f"{name}: {'allowed' if allowed else 'not allowed'}\n")
        self.finish(asked)


class AsksForms(HostileAgent):
    """Asks for forms whose pattern takes forever, for addresses of odd schemes, and in modes that nobody knows."""

    habit = "asks-forms"

    def prompt(self, asked: Json) -> None:
        """None of them may be filled in or opened without a person."""
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
        self.finish(asked)


UNWANTED_REQUESTS = (AsksAfterCancel, AsksAfterAnswer, AsksUnfairly, AsksForms)


# MERGED testing.hostile.reaching: Agents that reach for files and terminals they must not have. What came of it is in what they say.

TERMINALS = 1000


class ReadsOutside(HostileAgent):
    """Asks to read `/etc/passwd`: by its name, by `..`, through a link in the folder of the session, and for another session."""

    habit = "reads-outside"

    def prompt(self, asked: Json) -> None:
        """A good client refuses all of them."""
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
        self.finish(asked)


class WritesOutside(HostileAgent):
    """Asks to write outside the folder of the session: by name, by `..`, through a linked file and a linked folder."""

    habit = "writes-outside"

    def prompt(self, asked: Json) -> None:
        """A good client refuses all of them, and nothing is changed there."""
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
        self.finish(asked)


class ManyTerminals(HostileAgent):
    """Asks for 1 000 terminals with commands that never end, releases none, and answers."""

    habit = "many-terminals"

    def prompt(self, asked: Json) -> None:
        """All at once; how many it got is said."""
        forever = {"command": "/bin/sh", "args": ["-c", "while :; do sleep 60; done"]}
        ids = [self.begin("terminal/create", forever) for _ in range(TERMINALS)]
        got = sum("result" in answer for answer in self.answers_to(ids))
        self.say(f"asked for {TERMINALS} terminals, got {'some' if 0 < got < TERMINALS else got}")
        self.finish(asked)


class TerminalOutside(HostileAgent):
    """Asks for a terminal in `/etc`, for one of a session that is not there, and for the output of a terminal it never made."""

    habit = "terminal-outside"

    def prompt(self, asked: Json) -> None:
        """A good client starts none of them."""
        create = {"command": "/bin/cat", "args": ["passwd"]}
        self.report("in /etc", self.ask("terminal/create", {**create, "cwd": "/etc"}))
        self.report("of another session", self.ask("terminal/create", {**create, "sessionId": "another"}))
        self.report("output of nothing", self.ask("terminal/output", {"terminalId": "t999"}))
        self.finish(asked)


FORBIDDEN_REQUESTS = (ReadsOutside, WritesOutside, ManyTerminals, TerminalOutside)


BEHAVIORS: Final = (
    *UNWANTED_REQUESTS,
    *FORBIDDEN_REQUESTS,
)
