"""Writes the man pages `accord.1` and `accord-COMMAND.1` from the parsers: `make commands`."""

import re
from pathlib import Path

from tools.command_tree import Argument, CommandNode, command_tree

from accord import __version__

FOLDER = Path(__file__).resolve().parent.parent / "share" / "man" / "man1"


def escape(text: str) -> str:
    """Escape text for roff."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^([.'])", r"\\&\1", text, flags=re.MULTILINE)


def page(node: CommandNode, see_also: list[str]) -> str:
    """Return the page of a command with all its subcommands."""
    name = "-".join(["accord", *node.path])
    lines = [
        f'.TH {name.upper()} 1 "" "accord {__version__}" "Accord"',
        ".SH NAME",
        f"{escape(name)} \\- {escape(node.summary[:1].lower() + node.summary[1:])}",
        ".SH SYNOPSIS",
        *synopsis(node),
    ]
    if node.description:
        lines += [".SH DESCRIPTION", escape(node.description)]
    if not node.path:
        lines.append(".SH COMMANDS")
        for command in node.subcommands:
            lines += [".TP", f".BR {escape(f'accord-{command.path[0]}')} (1)", escape(command.summary)]
    lines += arguments(node, ".SH")
    if node.path:
        for command in list(node.walk())[1:]:
            if command.arguments:
                lines += subcommand(command)
    if node.epilog:
        lines += [".SH NOTES", escape(node.epilog)]
    lines += [".SH SEE ALSO", ", ".join(f"\\fB{escape(other)}\\fR(1)" for other in see_also)]
    return "\n".join(lines) + "\n"


def subcommand(node: CommandNode) -> list[str]:
    title = " ".join(["accord", *node.path])
    lines = [f'.SH "{escape(title.upper())}"', *synopsis(node), ".PP"]
    lines.append(escape(node.description or node.summary))
    lines += arguments(node, ".SS")
    return [*lines, ".PP", escape(node.epilog)] if node.epilog else lines


def synopsis(node: CommandNode) -> list[str]:
    lines: list[str] = []
    for line in node.usage.splitlines():
        lines += [".br", escape(line.strip())]
    return [".nh", *lines[1:], ".hy"]


def arguments(node: CommandNode, heading: str) -> list[str]:
    lines: list[str] = []
    for title, found in (("ARGUMENTS", node.positionals), ("OPTIONS", node.options)):
        if found:
            lines.append(f"{heading} {title}")
        for argument in found:
            lines += [".TP", head(argument), escape(argument.help)]
    return lines


def head(argument: Argument) -> str:
    value = f"\\fI{escape(argument.metavar)}\\fR" if argument.metavar else ""
    flags = ", ".join(f"\\fB{escape(flag)}\\fR" for flag in argument.flags)
    return f"{flags} {value}".strip()


def pages() -> dict[Path, str]:
    """Return the content of each file."""
    root = command_tree()
    names = [f"accord-{command.path[0]}" for command in root.subcommands]
    found = {FOLDER / "accord.1": page(root, names)}
    for command, name in zip(root.subcommands, names, strict=True):
        found[FOLDER / f"{name}.1"] = page(command, ["accord", *[other for other in names if other != name]])
    return found


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, "utf-8")
