"""The hook that ships ready: formats a file after an edit, with the formatter of its language if installed.

The formatter gets the text on stdin and runs outside the project, so that it takes no program or plug-in from
there. Only settings that are data are read.
"""

import asyncio
import difflib
import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

import msgspec

from accord.coder.bounded_text import truncate
from accord.coder.files.exact_disk import ResolvedFile
from accord.coder.helper_process import run_helper
from accord.coder.hooks.session_hooks import with_context
from accord.coder.permissions.project_files import open_regular
from accord.coder.tools.tool import ToolOutcome
from accord.coder.tools.tool_context import ToolContext
from accord.errors import AccordError, NeverStarted
from accord.policy.installed_program import installed_program, safe_search_path
from accord.safe_text import one_line

_SECONDS: Final = 10.0
_MAX_TEXT_BYTES: Final = 2 * 1024 * 1024
_MAX_DIFF_CHARS: Final = 4000
_PRETTIER_SUFFIXES: Final = (
    ".js .jsx .mjs .cjs .ts .tsx .mts .cts .css .scss .less .html .vue .json .md .yaml .yml"
)


@dataclass(frozen=True, slots=True)
class Formatter:
    """A formatter that reads stdin and writes stdout."""

    name: str
    suffixes: tuple[str, ...]
    arguments: Callable[[str], list[str]]
    """Its arguments for a file."""
    refusal: Callable[[str], str | None] = lambda path: None
    """Why it must not run for a file."""


def _rustfmt_arguments(path: str) -> list[str]:
    folder = _nearest(path, ("rustfmt.toml", ".rustfmt.toml"))
    settings = [] if folder is None else ["--config-path", str(folder.parent)]
    return ["--emit", "stdout", "--quiet", *settings]


_CODE_SUFFIXES: Final = (".js", ".mjs", ".cjs", ".ts", ".mts", ".cts")
_MAP_START: Final = re.compile(
    rb"(?:\s|#.*\n|---[ \t]*\n)*(?:\Z|[{\[]|([\"']?)[A-Za-z]+\1[ \t]*[:=](?:\s|\Z))"
)
_NAMED_PARSER: Final = re.compile(rb"parser[\"']?[ \t]*[:=][ \t]*([\"']?)[a-z][a-z-]*\1[ \t]*(?:[,}\n]|\Z)")


def _prettier_refusal(path: str) -> str | None:
    """Prettier can load plug-ins, parsers and settings from the project: that would run its code."""
    for folder in Path(path).parents:
        names = ("prettier.config.*", ".prettierrc*", "package.json", "package.yaml")
        for file in (file for name in names for file in sorted(folder.glob(name))):
            try:
                with open_regular(file) as stream:
                    content = stream.read(_MAX_TEXT_BYTES + 1)
            except OSError:
                return f"{file.name} cannot be read"
            if file.suffix in _CODE_SUFFIXES or _names_code(file.name, content):
                return f"{file.name} of the project can run code"
    return None


def _names_code(name: str, content: bytes) -> bool:
    """Whether settings of prettier may name code to load. A text in place of a map is such a name."""
    if name == "package.json":
        try:
            package: Any = msgspec.json.decode(content)
        except (ValueError, msgspec.MsgspecError, RecursionError):
            return True
        if not isinstance(package, dict) or "prettier" not in package:
            return False
        content = msgspec.json.encode(cast(dict[str, Any], package)["prettier"])
    elif name == "package.yaml":
        return b"prettier" in content or b"\\" in content
    is_plain = _MAP_START.match(content) and not re.search(rb"(?i)plugin|[\\!]", content)
    parsers = len(_NAMED_PARSER.findall(content))
    return not is_plain or len(content) > _MAX_TEXT_BYTES or content.count(b"parser") > parsers


def _nearest(path: str, names: tuple[str, ...]) -> Path | None:
    files = (folder / name for folder in Path(path).parents for name in names)
    return next((file for file in files if file.is_file()), None)


FORMATTERS: Final = (
    Formatter("ruff", (".py", ".pyi"), lambda path: ["format", "--quiet", "--stdin-filename", path, "-"]),
    Formatter("gofmt", (".go",), lambda path: []),
    Formatter("rustfmt", (".rs",), _rustfmt_arguments),
    Formatter(
        "prettier",
        tuple(_PRETTIER_SUFFIXES.split()),
        lambda path: ["--stdin-filepath", path, "--ignore-path", os.devnull],
        _prettier_refusal,
    ),
)


def formatter_for(
    path: str, roots: Iterable[str] = (), search_path: str | None = None
) -> tuple[Formatter, str] | None:
    """The formatter of a file and its program, if it is installed outside of the session's folders."""
    for formatter in FORMATTERS:
        if not path.endswith(formatter.suffixes):
            continue
        if program := installed_program(formatter.name, roots, search_path):
            return formatter, program
    return None


async def format_after_edit(context: ToolContext, path: str, outcome: ToolOutcome) -> ToolOutcome:
    """Format an edited file and tell the model what changed. A failure is a line in the result."""
    found = formatter_for(path, context.roots)
    if found is None:
        return outcome
    formatter, program = found
    refusal = await asyncio.to_thread(formatter.refusal, path)
    if refusal is not None:
        return with_context(outcome, f"{formatter.name} was not run: {refusal}")
    try:
        file = await context.resolve(path)
        return with_context(outcome, await _format(context, file, formatter, program))
    except AccordError as error:
        return with_context(outcome, f"{formatter.name} was not run: {one_line(str(error), 300)}")


async def _format(
    context: ToolContext,
    file: ResolvedFile,
    formatter: Formatter,
    program: str,
) -> str:
    before = await context.files.read(file, _MAX_TEXT_BYTES)
    if before is None or before.encoding.name != "utf-8":
        return ""
    arguments = await asyncio.to_thread(formatter.arguments, file.path)
    try:
        result = await run_helper(
            [program, *arguments],
            before.text.encode().removesuffix(b"\n"),  # the pipe adds a line end
            cwd=os.sep,
            env={"PATH": safe_search_path(context.roots)},
            seconds=_SECONDS,
            limit=2 * _MAX_TEXT_BYTES,
            clock=context.clock,
        )
    except NeverStarted as error:
        return f"{formatter.name} was not run: {error}"
    if result.exit is None:
        return f"{formatter.name} was ended: it took more than {_SECONDS:g} s"
    if result.exit.code != 0 or result.output.truncated:
        reason = one_line(result.errors.text.strip(), 300) or str(result.exit)
        return f"{formatter.name} could not format it: {reason}"
    after = result.output.text
    if after == before.text or not after.strip():
        return ""
    written = await context.files.write(file, after, before)
    diff = "".join(
        difflib.unified_diff(
            before.text.splitlines(keepends=True), after.splitlines(keepends=True), "edited", "formatted", n=1
        )
    )
    if len(diff) > _MAX_DIFF_CHARS:
        return f"{formatter.name} changed many lines of the file; read it again before the next edit"
    context.read_files.record(file, written.digest)
    return f"{formatter.name} changed the file:\n{truncate(diff, _MAX_DIFF_CHARS)}"
