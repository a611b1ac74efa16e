"""Agents that ask for permission at the wrong time, or so that only yes can be said; and such that ask for forms."""

from accord.testing.hostile.agent import YES_NO, HostileAgent, Json


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


HABITS = (AsksAfterCancel, AsksAfterAnswer, AsksUnfairly, AsksForms)
