"""Writes docs/cli.md, the reference of all commands, from their parsers: `make commands`."""

from pathlib import Path

from tools.command_tree import Argument, CommandNode, command_tree

PAGE = Path(__file__).resolve().parent.parent / "docs" / "cli.md"

HEAD = """# Command reference

Look up a command and its options. `accord COMMAND --help` prints the same:

```console
$ accord sessions --help
usage: accord sessions COMMAND ...
...
```

[Exit codes](run.md#exit-codes) are the same for all commands.

<!-- Generated from the parsers. Do not edit: run `make commands`. -->
"""


def section(node: CommandNode) -> list[str]:
    """Return the section of a command and those of its subcommands."""
    level = "#" * min(4, len(node.path) + 1)
    usage = "\n".join(line.strip() for line in node.usage.splitlines())
    words = node.description or node.summary
    lines = [f"{level} accord {' '.join(node.path)}", ""]
    if words:
        lines += [f"{words[:1].upper()}{words[1:]}".rstrip(".") + ".", ""]
    lines += ["```text", usage, "```", ""]
    if node.positionals:
        lines += table("argument", node.positionals)
    if node.options:
        lines += table("option", node.options)
    if node.epilog:
        lines += [node.epilog, ""]
    for command in node.subcommands:
        lines += section(command)
    return lines


def table(title: str, arguments: list[Argument]) -> list[str]:
    """Return the table of options or arguments."""
    lines = [f"| {title} | meaning |", "|---|---|"]
    for argument in arguments:
        flags = ", ".join(f"`{flag}`" for flag in argument.flags)
        value = f"`{argument.metavar}`" if argument.metavar else ""
        head = " ".join(part for part in (flags, value) if part).replace("|", "\\|")
        lines.append(f"| {head} | {escape(argument.help)} |")
    return [*lines, ""]


def escape(text: str) -> str:
    """Escape text for a table of Markdown."""
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*").replace("_", "\\_")


def page() -> str:
    """Return the whole page."""
    lines = [HEAD]
    for command in command_tree().subcommands:
        lines += section(command)
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
