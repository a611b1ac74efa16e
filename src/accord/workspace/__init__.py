"""Files and processes within the roots of a session.

`Roots` are the folders of a session. `TextFiles` and `Terminals` work within them, and `LocalWorkspace`
combines both. Names are imported on first use, so that an agent that needs only the roots loads no process
code.
"""

from typing import TYPE_CHECKING

from accord.lazy_names import LazyGetattr, lazy_names

if TYPE_CHECKING:
    from accord.workspace.roots import OutsideRoots, Roots
    from accord.workspace.terminal_command import TerminalCommand
    from accord.workspace.terminals import ExitStatus, PtySize, TerminalOutput, Terminals
    from accord.workspace.text_files import EditorBuffers, TextFiles
    from accord.workspace.workspace import LocalWorkspace, Workspace

__all__ = [
    "EditorBuffers", "ExitStatus", "LocalWorkspace", "OutsideRoots", "PtySize", "Roots", "TerminalCommand",
    "TerminalOutput", "Terminals", "TextFiles", "Workspace",
]  # fmt: skip

__getattr__: LazyGetattr = lazy_names(
    __name__,
    {
        "accord.workspace.roots": "OutsideRoots Roots",
        "accord.workspace.terminal_command": "TerminalCommand",
        "accord.workspace.terminals": "PtySize ExitStatus TerminalOutput Terminals",
        "accord.workspace.text_files": "EditorBuffers TextFiles",
        "accord.workspace.workspace": "LocalWorkspace Workspace",
    },
)
