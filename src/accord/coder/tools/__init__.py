"""What the model can do, one file a tool, each with its description for the model beside it.

`tool.py` is the seam to the loop, `context.py` what tools work with. Nothing is imported before `built_in_tools`.
"""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from accord.coder.tools.tool import Tool

TOOL_NAMES: Final = (
    "read_file",
    "list_files",
    "glob",
    "grep",
    "write_file",
    "edit_file",
    "delete_file",
    "move_file",
    "bash",
    "job",
    "web_fetch",
    "agent",
    "plan",
    "leave_plan_mode",
    "ask_user",
)
"""The tools of this package. Each stands in a module of its name, under its name in capitals."""


def built_in_tools() -> "dict[str, Tool]":
    """The tools of this package, by name."""
    from importlib import import_module

    return {name: getattr(import_module(f"{__name__}.{name}"), name.upper()) for name in TOOL_NAMES}
