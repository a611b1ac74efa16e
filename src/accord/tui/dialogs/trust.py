"""May a project's file of agents count? It can start programs with the user's rights."""

from typing import TYPE_CHECKING

from accord.client.servers.trusting import what_it_does
from accord.tui.dialogs.choosing import ChoosingDialog
from accord.tui.dialogs.permission import AboutItem
from accord.tui.parts.judged import JudgedPart

if TYPE_CHECKING:
    from accord.client.servers.reading import ServersFile


class TrustDialog(ChoosingDialog):
    """True: it counts, until it changes."""

    def __init__(self, file: "ServersFile") -> None:
        lines = [JudgedPart(line) for line in what_it_does(file)]
        head = JudgedPart(f"{file.path} is new or has changed since you agreed to it.", strong=True)
        names = ("Do not let it count", "Let it count: it may start these programs")
        super().__init__(
            "An acp.json of this project", [AboutItem([head, *lines])], names, ("reject_once", "allow_always")
        )

    def choose(self, index: int) -> None:
        self.settle(index == 1)
