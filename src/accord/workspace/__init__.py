"""Files and processes within the roots of a session.

`Roots` bounds them, `TextFiles` and `Terminals` work inside, `LocalWorkspace` puts them together. Names are imported on first
use: an agent that only needs the roots does not pay for processes.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from accord.workspace.channel import Size
    from accord.workspace.command import Command
    from accord.workspace.files import Buffers, TextFiles
    from accord.workspace.roots import OutsideRoots, Roots
    from accord.workspace.terminal import ExitStatus, TerminalOutput
    from accord.workspace.terminals import Terminals
    from accord.workspace.workspace import LocalWorkspace, Workspace

__all__ = [
    "Buffers",
    "Command",
    "ExitStatus",
    "LocalWorkspace",
    "OutsideRoots",
    "Roots",
    "Size",
    "TerminalOutput",
    "Terminals",
    "TextFiles",
    "Workspace",
]

_HOMES: Final = {
    "Buffers": "files",
    "Command": "command",
    "ExitStatus": "terminal",
    "LocalWorkspace": "workspace",
    "OutsideRoots": "roots",
    "Roots": "roots",
    "Size": "channel",
    "TerminalOutput": "terminal",
    "Terminals": "terminals",
    "TextFiles": "files",
    "Workspace": "workspace",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
