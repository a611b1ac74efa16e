"""How do you want to sign in? The ways that the agent offers, with what each of them does."""

from collections.abc import Sequence

from accord.cleaning import clean_line, one_line
from accord.client import Launch
from accord.client.signin import described
from accord.schema import AuthMethod
from accord.tui.dialogs.choosing import ChoosingDialog
from accord.tui.dialogs.permission import AboutItem
from accord.tui.parts.judged import JudgedPart


class SignInDialog(ChoosingDialog):
    """The answer is a method, or None."""

    def __init__(self, agent: str, why: str, methods: Sequence[AuthMethod], launch: Launch | None) -> None:
        names = [one_line(clean_line(method.name)) for method in methods]
        told = [described(method, launch) for method in methods]
        lines = [JudgedPart(f"· {text}") for name, text in zip(names, told, strict=True) if text != name]
        about = AboutItem([JudgedPart(why, strong=True), *lines])
        super().__init__(f"{one_line(agent, 40)} wants you to sign in", [about], [*names, "Not now"])
        self._methods = list(methods)

    @property
    def hint(self) -> str:
        return f"1-{min(len(self.options.names), 9)} choose · Esc: not now"

    def choose(self, index: int) -> None:
        self.settle(self._methods[index] if index < len(self._methods) else None)
