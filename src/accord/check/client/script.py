"""Scripts for clients: which words make a client do what rules are about. The format is described in docs/check.md.

Two ship: `run.json` for `accord run`, `none.json` for everybody else.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Final

import msgspec
from msgspec import Struct, field

from accord.check.script import Script, fill, shipped
from accord.trace.exchange import at

ACTS: Final = {
    "allow": "allow everything that an agent asks for, without a person",
    "reject": "allow nothing",
    "reads": "allow reading by itself, and nothing else",
    "ask": "ask a person at a terminal about everything",
    "deadline": "give up after a second or two",
    "strict": "judge messages as they are sent, without repairs",
    "session": "go on with the session {session}",
    "newest": "go on with the newest session",
    "roots": "work in the folder {extra} too",
    "servers": "give the agent MCP servers of every kind",
    "attach": "send the file {file} along with the prompt",
    "mode": "choose the mode {mode}",
    "option": "set the option {option} to {value}",
    "delete": "delete the session {session}",
}
"""What each act makes a client do."""


class ClientAct(Struct, frozen=True, forbid_unknown_fields=True):
    """Words of the command line, and what goes with them."""

    words: tuple[str, ...] = ()
    terminal: bool = False
    """Whether the client needs a terminal for it."""
    environment: dict[str, str] = field(default_factory=dict[str, str])
    files: dict[str, Any] = field(default_factory=dict[str, Any])
    """Files by their path, which begins with `{home}` or `{folder}`: text, or JSON."""


class ClientScript(Script, frozen=True, rename="camel"):
    """What a checker may ask of a client."""

    ACTS: ClassVar[Mapping[str, str]] = ACTS

    clients: tuple[str, ...] = ()
    """The names (`clientInfo.name`) of the clients it is for."""
    cancels: bool = False
    """Whether an interrupt (Ctrl-C) cancels the turn."""
    acts: dict[str, tuple[str, ...] | ClientAct] = field(default_factory=dict[str, Any])

    def act(self, name: str) -> ClientAct | None:
        """An act, if the script has it."""
        found = self.acts.get(name)
        return found if found is None or isinstance(found, ClientAct) else ClientAct(words=tuple(found))


def write_files(act: ClientAct, values: Mapping[str, str]) -> None:
    """The files that go with an act."""
    for name, content in act.files.items():
        path = Path(fill(name, values))
        path.parent.mkdir(parents=True, exist_ok=True)
        data = content if isinstance(content, str) else msgspec.json.encode(content).decode()
        path.write_text(fill(data, values), "utf-8")


def script_for_client(client_info: Any) -> ClientScript:
    """The shipped script that fits a client by its name; one without acts for those nobody knows."""
    ours = shipped("run", ClientScript)
    return ours if at(client_info, "name") in ours.clients else shipped("none", ClientScript)
