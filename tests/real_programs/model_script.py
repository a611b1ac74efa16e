"""What the scripted model answers to any agent: a text, a call of a tool that changes a file, or silence."""

from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from accord.testing.model_server import ModelAnswer, ModelToolCall, RecordedRequest, Reply, StreamPause

Task: TypeAlias = Literal["text", "tool", "wait"]

ANSWER: Final = "The scripted model answers."
TOOLS: Final = (
    "write_file", "Write", "write", "write_to_file", "file_write", "create_file", "save-file", "editor",
    "bash", "Bash", "run_commands", "shell", "run_shell_command", "exec_command",
    "execute_command", "run_command", "terminal", "execute", "Execute", "exec", "Shell", "launch-process",
    "edit_file",
)  # fmt: skip
"""Tools that can create a file, the best first."""


class ModelScript:
    """Answers every request of one agent, as the current task says."""

    def __init__(self, file: Path) -> None:
        self.task: Task = "text"
        self.file: Path = file
        """The file that a tool call creates."""
        self.pause: StreamPause = StreamPause()
        self.called: str = ""
        """The tool that was called in this task."""
        self.offered: list[str] = []
        self.last: Any = None
        """The last message of the last request."""

    def begin(self, task: Task, file: Path | None = None) -> None:
        """Start another task."""
        self.task, self.called, self.pause = task, "", StreamPause()
        self.file = self.file if file is None else file

    def reply(self, request: RecordedRequest) -> Reply:
        """Return the answer to a request. Requests without tools are for titles and the like."""
        tools = _tools(request.body)
        turns = next(
            (request.body[key] for key in ("messages", "input", "contents") if key in request.body), ""
        )
        self.last = turns[-1:]
        if tools:
            self.offered = list(tools)
        if self.task == "wait" and tools:
            return ModelAnswer("Waiting.", self.pause)
        name = next((name for name in TOOLS if name in tools), None)
        if self.task == "tool" and name and not self.called:
            self.called = name
            return ModelAnswer("I use a tool.", ModelToolCall(name, self._arguments(tools[name])))
        return ModelAnswer(ANSWER)

    def _arguments(self, schema: dict[str, Any]) -> dict[str, Any]:
        properties: dict[str, dict[str, Any]] = schema.get("properties", {})
        wanted = dict.fromkeys([*schema.get("required", ()), *(name for name in properties if name in _ALSO)])
        return {name: self._argument(name, properties.get(name, {})) for name in wanted}

    def _argument(self, name: str, schema: dict[str, Any]) -> Any:
        kind, lower = schema.get("type"), name.lower()
        command = f"touch {self.file.name}"
        if lower in ("command", "cmd", "script"):
            return ["bash", "-lc", command] if kind == "array" else command
        if lower == "sandbox_permissions":
            return "require_escalated"
        if lower == "commands":
            return [command]
        if "path" in lower or "file" in lower:
            return str(self.file)
        if lower in ("cwd", "workdir", "dir_path", "directory"):
            return str(self.file.parent)
        if any(one.get("type") == "null" for one in schema.get("anyOf", ())):
            return None
        if "enum" in schema:
            return "create" if "create" in schema["enum"] else schema["enum"][0]
        return {"boolean": False, "integer": 60, "number": 60, "array": [], "object": {}}.get(
            str(kind), "interop"
        )


_ALSO: Final = ("command", "cmd", "content", "file_path", "path", "sandbox_permissions")


def _tools(body: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the schemas of the tools that a request offers, by name, in any of the four formats."""
    found: dict[str, dict[str, Any]] = {}
    for tool in body.get("tools") or ():
        for item in tool.get("functionDeclarations") or tool.get("function_declarations") or [tool]:
            function = item.get("function", item)
            schema = next(
                (
                    function[key]
                    for key in ("parameters", "input_schema", "parametersJsonSchema")
                    if function.get(key)
                ),
                {},
            )
            if "name" in function:
                found[function["name"]] = schema
    return found
