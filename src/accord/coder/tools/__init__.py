"""The built-in tools: one file per tool, with its description for the model beside it.

`tool.py` is the contract with the agent loop. `tool_context.py` is what tools work with. `built_in_tools`
imports the tools.
"""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from accord.coder.tools.tool import Tool

TOOL_NAMES: Final[tuple[str, ...]] = (
    "read_file", "list_files", "glob", "grep", "write_file", "edit_file", "delete_file", "move_file", "bash",
    "job", "web_fetch", "web_search", "agent", "skill", "plan", "leave_plan_mode", "ask_user",
)  # fmt: skip
"""The tools of this package. Each is a constant in the module of its name, with the name in capitals."""


def built_in_tools() -> "dict[str, Tool]":
    """Return the tools of this package, by name."""
    from importlib import import_module

    return {name: getattr(import_module(f"{__name__}.{name}"), name.upper()) for name in TOOL_NAMES}
