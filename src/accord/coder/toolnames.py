"""The tool that a model means by a name: models write what they learnt elsewhere, or bend what they were told."""

import re
from collections.abc import Mapping
from typing import Final

from accord.coder.tools.tool import Tool

_KNOWN_AS: Final = {
    "read": "read_file",
    "cat": "read_file",
    "view": "read_file",
    "open_file": "read_file",
    "write": "write_file",
    "create_file": "write_file",
    "edit": "edit_file",
    "replace": "edit_file",
    "str_replace": "edit_file",
    "ls": "list_files",
    "list": "list_files",
    "list_directory": "list_files",
    "list_dir": "list_files",
    "search": "grep",
    "search_file_content": "grep",
    "find": "glob",
    "find_files": "glob",
    "shell": "bash",
    "sh": "bash",
    "execute": "bash",
    "execute_command": "bash",
    "run_command": "bash",
    "run_shell_command": "bash",
    "terminal": "bash",
    "fetch": "web_fetch",
    "task": "agent",
    "delegate": "agent",
    "todo_write": "plan",
    "update_plan": "plan",
    "exit_plan_mode": "leave_plan_mode",
    "ask": "ask_user",
    "rm": "delete_file",
    "remove_file": "delete_file",
    "mv": "move_file",
    "rename_file": "move_file",
}
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def find_tool(name: str, tools: Mapping[str, Tool]) -> Tool | None:
    """The tool of this name, or the only one it can mean."""
    if name in tools:
        return tools[name]
    bare = name.strip().rpartition(".")[2][:100]  # `functions.read_file`
    plain = _CAMEL.sub("_", bare).replace("-", "_").replace(" ", "_").lower()
    for guess in (bare, plain, _KNOWN_AS.get(plain, ""), plain.removesuffix("_tool")):
        if guess in tools:
            return tools[guess]
    alike = [tool for other, tool in tools.items() if other.replace("-", "_").lower() == plain]
    return alike[0] if len(alike) == 1 else None


def unknown_tool(name: str, tools: Mapping[str, Tool]) -> str:
    """What a model is told that named no tool."""
    return f"There is no tool {name[:100]!r}. The tools are: {', '.join(tools)}."
