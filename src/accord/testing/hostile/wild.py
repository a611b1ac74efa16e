"""Agents as they were met in the wild: against the letter or the habit of the protocol, and yet in use. A client loses no turn."""

from accord.testing.hostile.agent import YES_NO, HostileAgent, Json


class Wild(HostileAgent):
    """Has every habit that was seen in real agents and fits into one good turn."""

    habit = "wild"

    def initialize(self, asked: Json) -> None:
        """Echoes whatever version was asked for."""
        self.raw(b"wild-agent 1.2.3 starting up\n")
        self.reply(asked, {"protocolVersion": asked["params"]["protocolVersion"]})

    def new_session(self, asked: Json) -> None:
        """Updates before the answer that names the session; modes and models, each in its own way."""
        self.update(
            "available_commands_update", availableCommands=[{"name": "early", "description": "Came early"}]
        )
        modes = {"currentModeId": "a", "availableModes": [{"id": "a", "name": "A"}]}
        models = {"currentModelId": "m", "availableModels": [{"modelId": "m", "name": "M"}]}
        self.reply(asked, {"sessionId": self.session, "modes": modes, "models": models})

    def prompt(self, asked: Json) -> None:
        """One after the other."""
        self.say("Let me see. ")
        self.unannounced()
        self.unfinished()
        self.odd_ids()
        self.own_methods()
        self.missing_file()
        self.say("That is all.")
        self.finish(asked)
        self.update("usage_update", used=53_000, size=200_000)
        self.update("session_info_update", title="A title that came late")
        self.update("tool_call_update", toolCallId="forgotten", status="completed")

    def other(self, asked: Json) -> None:
        """An option is set without the list in the result."""
        if asked.get("method") in ("session/set_config_option", "session/set_mode", "session/set_model"):
            self.reply(asked, {})
        else:
            super().other(asked)

    def unannounced(self) -> None:
        """A change of a call that nobody announced; the call comes after it and goes back to pending."""
        self.update("tool_call_update", toolCallId="late", status="in_progress")
        self.update("tool_call_update", toolCallId="late", status="completed")
        self.update("tool_call", toolCallId="late", title="Announced late", kind="read", status="pending")

    def unfinished(self) -> None:
        """Calls without kind and status, one that never ends, one with a terminal that nobody made."""
        self.update("tool_call", toolCallId="bare", title="Neither kind nor status")
        self.update("tool_call", toolCallId="forgotten", title="Never finished", status="in_progress")
        terminal = {"type": "terminal", "terminalId": "of-nobody"}
        self.update("tool_call", toolCallId="tty", title="A terminal of nobody", content=[terminal])

    def odd_ids(self) -> None:
        """Questions for calls that nobody knows, under ids of every kind; silence after a rejection."""
        for number, id in enumerate((0, "0", "9b2edc2b-1111-4222-8333-444455556666", "req:7", -1)):
            call = {"toolCallId": f"toolu_{number}", "title": f"Question {number}", "kind": "read"}
            self.ask("session/request_permission", {"toolCall": call, "options": YES_NO}, id=id)
        self.say("Five questions. ")

    def own_methods(self) -> None:
        """Notifications and requests of its own, with and without an underscore."""
        self.notify("wild/telemetry", {"x": 1})
        self.notify("_wild/thing", {})
        for method in ("wild/ask", "_wild/ask"):
            self.report(method, self.ask(method, {}))

    def missing_file(self) -> None:
        """Reads a file that is not there, to find out whether it may be made."""
        self.report("missing file", self.ask("fs/read_text_file", {"path": f"{self.cwd}/not-there.txt"}))


class EndsOnRejection(HostileAgent):
    """Ends the turn as `cancelled`, without a word, when a permission is refused."""

    habit = "ends-on-rejection"

    def prompt(self, asked: Json) -> None:
        """A no is the end."""
        call = {"toolCallId": "c1", "title": "Delete everything", "kind": "delete"}
        answer = self.ask("session/request_permission", {"toolCall": call, "options": YES_NO})
        if self.outcome(answer).get("optionId") not in ("yes", "always"):
            self.finish(asked, "cancelled")
        else:
            self.say("Deleted.")
            self.finish(asked)


class EndsAfterCancel(HostileAgent):
    """Answers a cancelled turn with `end_turn`, after some more updates."""

    habit = "ends-after-cancel"

    def prompt(self, asked: Json) -> None:
        """As if nothing had happened."""
        self.say("Working. ")
        self.wait_for_cancel()
        self.say("Just this.")
        self.finish(asked)


HABITS = (Wild, EndsOnRejection, EndsAfterCancel)
