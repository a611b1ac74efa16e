"""A pass: what the holder of a token may do. Everybody behind the door asks it, nobody sees the token."""

from collections.abc import Iterable
from os.path import commonpath, isabs, normpath, realpath
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

NOT_ALLOWED: Final = -32003
"""The JSON-RPC code for what a pass does not cover."""


class Pass(Struct, frozen=True):
    """What a token lets its holder do."""

    token: str
    """The id of the token, not its secret: for the audit log and the limits."""
    name: str = ""
    agents: frozenset[str] | None = None
    """None is every agent."""
    folders: tuple[str, ...] | None = None
    """Real paths; None is every folder."""
    read_only: bool = False
    expires: float | None = None
    """In seconds since 1970."""
    peer: str = ""
    """The address it was shown from, for the audit log."""

    def may_use(self, agent: str) -> bool:
        """Whether the agent is one of them."""
        return self.agents is None or agent in self.agents

    def may_enter(self, folder: str) -> bool:
        """Whether the folder, with its symlinks followed, is one of them or below one."""
        if not isabs(folder) or "\0" in folder:
            return False
        if self.folders is None:
            return True
        # `link/..` is one place for the system and another for a program that tidies the text first: both count.
        return all(
            any(commonpath((real, own)) == own for own in self.folders)
            for real in map(realpath, {folder, normpath(folder)})
        )

    def covers(self, agent: str, folders: Iterable[str]) -> bool:
        """Whether a session of this agent in these folders, all of them, is for its holder to see."""
        return self.may_use(agent) and all(map(self.may_enter, folders))

    def within(self, folders: tuple[str, ...] | None) -> "Pass":
        """The same, bound to these folders, too: of each two, the one that lies in the other is left."""
        if folders is None:
            return self
        if self.folders is None:
            return replace(self, folders=folders)
        bounds = Pass("", folders=folders)
        deeper = [own for own in self.folders if bounds.may_enter(own)]
        deeper += [bound for bound in folders if self.may_enter(bound)]
        return replace(self, folders=tuple(dict.fromkeys(deeper)))
