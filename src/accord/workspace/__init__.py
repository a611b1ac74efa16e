"""Files and processes within the roots of a session.

`Roots` bounds them, `TextFiles` and `Terminals` work inside, `LocalWorkspace` puts them together. Names are imported on first
use: an agent that only needs the roots does not pay for processes.
"""

from typing import TYPE_CHECKING

from accord.lazy_names import lazy_names

if TYPE_CHECKING:
    from accord.workspace.roots import OutsideRoots, Roots
    from accord.workspace.terminal_command import TerminalCommand
    from accord.workspace.terminals import ExitStatus, PtySize, TerminalOutput, Terminals
    from accord.workspace.text_files import EditorBuffers, TextFiles
    from accord.workspace.workspace import LocalWorkspace, Workspace

__all__ = [
    "EditorBuffers",
    "ExitStatus",
    "LocalWorkspace",
    "OutsideRoots",
    "PtySize",
    "Roots",
    "TerminalCommand",
    "TerminalOutput",
    "Terminals",
    "TextFiles",
    "Workspace",
]

__getattr__ = lazy_names(
    __name__,
    {
        "accord.workspace.roots": "OutsideRoots Roots",
        "accord.workspace.terminal_command": "TerminalCommand",
        "accord.workspace.terminals": "PtySize ExitStatus TerminalOutput Terminals",
        "accord.workspace.text_files": "EditorBuffers TextFiles",
        "accord.workspace.workspace": "LocalWorkspace Workspace",
    },
)
