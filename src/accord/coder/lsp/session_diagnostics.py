"""The language servers of one session: started on first use, asked before and after each edit.

An edit waits for them for a bounded time. Only errors that the edit has added are told to the model. A server
that fails or is too slow is named in one line and not asked again.
"""

import asyncio
import os
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from accord.clock import Clock, OwnedTasks, within
from accord.coder.bounded_text import wrap_in_tag
from accord.coder.lsp.running_server import Diagnostic, RunningServer
from accord.coder.lsp.server_table import (
    LanguageServer,
    LspConfig,
    configured_servers,
    find_program,
    is_trusted,
    lsp_config,
)
from accord.coder.model_history import TextPart
from accord.coder.permissions.project_files import open_regular
from accord.coder.tools.tool import PreparedCall, Tool, ToolOutcome
from accord.coder.tools.tool_context import CommandSandbox
from accord.safe_text import clean_line, one_line
from accord.schema.content import Content, TextContent
from accord.text_width import count_text

if TYPE_CHECKING:
    from accord.coder.permissions.session_sandbox import SessionSandbox
    from accord.coder.session.coder_session import CoderSession

_MAX_FILE_BYTES: Final = 2 * 1024 * 1024
_MAX_SERVERS: Final = 8
_MAX_MISSES: Final = 3
"""After so many late answers in a row, a server is not asked any more."""
_MAX_SHOWN: Final = 20
_MESSAGE_CHARS: Final = 300
_END_SECONDS: Final = 5.0


@dataclass
class _Use:
    """A server of the session, in one folder."""

    server: RunningServer
    misses: int = 0
    dropped: bool = False


@dataclass
class _Baseline:
    """What servers reported about a file before an edit."""

    text: str | None
    """None if the file did not exist."""
    remaining: float
    """The seconds that the edit may still wait."""
    reports: dict[str, list[Diagnostic]] = field(default_factory=dict[str, list[Diagnostic]])


def session_diagnostics(session: "CoderSession", sandbox: "SessionSandbox") -> "SessionDiagnostics | None":
    """The language servers that the config of a session switches on. Nothing is started yet."""
    config = session.resources.config
    settings = lsp_config(config.mapping, config.file or "config.toml")

    async def ready_sandbox() -> CommandSandbox | None:
        await sandbox.ensure_ready()
        return sandbox.sandbox

    if not settings.enabled:
        return None
    return SessionDiagnostics(settings, session.agent_session.roots, session.clock, ready_sandbox)


class SessionDiagnostics:
    """Close it with the session: it ends the servers."""

    def __init__(
        self,
        config: LspConfig,
        roots: Sequence[str],
        clock: Clock,
        sandbox: Callable[[], Awaitable[CommandSandbox | None]],
    ) -> None:
        self._config = config
        self._roots = [os.path.realpath(root) for root in roots]
        self._clock = clock
        self._sandbox = sandbox
        self._trusted = is_trusted(config, self._roots)
        self._servers = list(configured_servers(config))
        self._uses: dict[tuple[str, str], _Use] = {}
        self._tasks = OwnedTasks(clock, _END_SECONDS)
        self._baselines: dict[str, _Baseline] = {}
        self._told: set[str] = set()
        self._closed = False

    # -- events of the session -------------------------------------------------------------------------------

    def file_read(self, path: str) -> None:
        """Let the servers of a file start and look at it: an edit may follow."""
        if any(server.handles(path) for server in self._servers):
            self._tasks.start(self._warm_up(path))

    async def before_edit(self, path: str) -> None:
        """Keep what the servers report about a file before it is changed."""
        started = self._clock.now()
        uses = await self._uses_for(path)
        if not uses:
            return
        text = await asyncio.to_thread(_read_text, path)
        if text is None and await asyncio.to_thread(os.path.lexists, path):
            return  # no text, or too large
        baseline = _Baseline(text, self._config.seconds)
        if text is None:
            baseline.reports = {use.server.name: [] for use in uses}
        else:
            baseline.reports = await self._ask(uses, path, text, self._config.seconds)
        baseline.remaining -= self._clock.now() - started
        self._baselines[path] = baseline

    async def after_edit(self, path: str) -> str:
        """Text for the model: the errors that the edit has added, and servers that cannot be used."""
        before = self._baselines.pop(path, None)
        if before is None:
            return "\n".join(self._problems())
        uses = await self._uses_for(path)
        text = await asyncio.to_thread(_read_text, path)
        if text is None:
            return ""
        for use in uses:
            use.server.file_changed(path, created=before.text is None)
        comparable = [use for use in uses if use.server.name in before.reports]
        after = await self._ask(comparable, path, text, max(before.remaining, 0.0))
        shown: list[str] = []
        for name, reports in after.items():
            new = new_errors(before.text or "", before.reports[name], text, reports)
            shown += [_error_line(one, name) for one in new]
        lines = [_error_text(path, self._roots, shown)] if shown else []
        return "\n".join([*lines, *self._problems()])

    async def after_call(self, tool: Tool, call: PreparedCall, outcome: ToolOutcome) -> ToolOutcome:
        """After a read: start the servers of the file. After an edit: add the new errors to the result."""
        if tool.name == "read_file":
            for path in call.subject.paths:
                self.file_read(path)
        if tool.kind != "edit":
            return outcome
        texts = [text for path in call.subject.paths if (text := await self.after_edit(path))]
        if not texts:
            return outcome
        content = [*(outcome.content or ()), *(Content(TextContent(text)) for text in texts)]
        return replace(outcome, parts=(*outcome.parts, *(TextPart(text) for text in texts)), content=content)

    async def aclose(self) -> None:
        """End all servers."""
        self._closed = True
        for use in self._uses.values():
            use.server.stop()
        await self._tasks.wait()
        await self._tasks.end()

    # -- servers ---------------------------------------------------------------------------------------------

    async def _warm_up(self, path: str) -> None:
        uses = await self._uses_for(path)
        text = await asyncio.to_thread(_read_text, path)
        if text is not None and uses:
            await self._ask(uses, path, text, 60.0, count_misses=False)

    async def _uses_for(self, path: str) -> list[_Use]:
        """The usable servers of a file; starts those that do not run."""
        if self._closed or not any(_is_below(path, root) for root in self._roots):
            return []
        wanted = [server for server in self._servers if server.handles(path)]
        uses = [await self._use(server, self._folder(server, path)) for server in wanted]
        return [use for use in uses if use is not None and not use.dropped]

    async def _use(self, server: LanguageServer, folder: str) -> _Use | None:
        key = (server.name, folder)
        use = self._uses.get(key)
        if use is not None and use.dropped:
            return None
        if use is not None and use.server.ended.is_set():
            if use.server.failure:
                self._drop(use, use.server.failure)
                return None
            use = None  # it was idle
        if use is not None:
            return use
        program = await asyncio.to_thread(find_program, server, self._roots, trusted=self._trusted)
        sandbox = await self._sandbox()
        if program is None or self._closed:
            return None
        if server.options(program) is None:
            self._told.add(f"{server.name} is not used: it would run the TypeScript of the project")
            return None
        if key in self._uses and not self._uses[key].server.ended.is_set():
            return self._uses[key]  # started meanwhile
        if len(self._uses) >= _MAX_SERVERS and key not in self._uses:
            return None
        use = self._uses[key] = _Use(RunningServer(program, folder, self._clock, sandbox))
        self._tasks.start(use.server.run())
        return use

    def _folder(self, server: LanguageServer, path: str) -> str:
        """The nearest folder with a marker of the server, else the root of the session."""
        root = max((root for root in self._roots if _is_below(path, root)), key=len)
        folder = os.path.dirname(path)
        while _is_below(folder, root):
            if any(os.path.exists(os.path.join(folder, marker)) for marker in server.markers):
                return folder
            folder = os.path.dirname(folder)
        return root

    def _drop(self, use: _Use, reason: str) -> None:
        """Do not use a server any more; the model and the user are told once."""
        if not use.dropped:
            use.dropped = True
            use.server.stop()
            self._told.add(f"{use.server.name} is not used any more: {reason}")

    def _problems(self) -> list[str]:
        """What is to be told about servers, each once."""
        lines, self._told = sorted(self._told), set()
        return [f"[language server] {line}" for line in lines]

    async def _ask(
        self, uses: Sequence[_Use], path: str, text: str, seconds: float, *, count_misses: bool = True
    ) -> dict[str, list[Diagnostic]]:
        """What the servers report about a text, by their names; without those that are too slow or fail."""
        tasks = {asyncio.ensure_future(_report(use.server, path, text)): use for use in uses}
        if not tasks:
            return {}
        everything = asyncio.ensure_future(asyncio.wait(tasks))
        try:
            await within(self._clock, seconds, everything)
        finally:
            everything.cancel()
            late = [task for task in tasks if not task.done()]
            for task in late:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await asyncio.gather(everything, return_exceptions=True)
        reports: dict[str, list[Diagnostic]] = {}
        for task, use in tasks.items():
            if task in late or task.cancelled() or task.exception() is not None:
                if use.server.ended.is_set():
                    self._drop(use, use.server.failure or "it has ended")
                elif count_misses:
                    self._missed(use)
            else:
                use.misses = 0
                reports[use.server.name] = task.result()
        return reports

    def _missed(self, use: _Use) -> None:
        use.misses += 1
        if use.misses == 1:
            state = "has not answered yet" if use.server.ready.is_set() else "is still starting"
            self._told.add(f"{use.server.name} {state}: no diagnostics of this edit")
        elif use.misses >= _MAX_MISSES:
            self._drop(use, f"it was too slow {_MAX_MISSES} times in a row")


async def _report(server: RunningServer, path: str, text: str) -> list[Diagnostic]:
    """Wait until a server is ready, and then for its report. Is canceled when the server ends."""
    ready = asyncio.ensure_future(server.ready.wait())
    ended = asyncio.ensure_future(server.ended.wait())
    asking: asyncio.Task[list[Diagnostic]] | None = None
    try:
        await asyncio.wait((ready, ended), return_when=asyncio.FIRST_COMPLETED)
        if not ended.done():
            asking = asyncio.ensure_future(server.diagnostics(path, text))
            await asyncio.wait((asking, ended), return_when=asyncio.FIRST_COMPLETED)
        if asking is None or not asking.done():
            raise asyncio.CancelledError
        return asking.result()
    finally:
        tasks: list[asyncio.Future[Any]] = [ready, ended, *([asking] if asking else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def new_errors(
    old_text: str, old: Sequence[Diagnostic], new_text: str, new: Sequence[Diagnostic]
) -> list[Diagnostic]:
    """The errors that an edit has added.

    An error counts as old if there was the same one before, at a line with the same text or at another.
    """
    old_lines, new_lines = old_text.split("\n"), new_text.split("\n")
    by_line = Counter(_key(one, old_lines) for one in old if one.is_error)
    unmatched: list[Diagnostic] = []
    for one in new:
        if not one.is_error:
            continue
        key = _key(one, new_lines)
        if by_line[key]:
            by_line[key] -= 1
        else:
            unmatched.append(one)
    left = Counter(key[:2] for key in by_line.elements())
    added: list[Diagnostic] = []
    for one in unmatched:
        key = _key(one, new_lines)[:2]
        if left[key]:
            left[key] -= 1
        else:
            added.append(one)
    return added


def _key(one: Diagnostic, lines: Sequence[str]) -> tuple[str, str, str]:
    text = lines[one.line].strip() if 0 <= one.line < len(lines) else ""
    return str(one.code), one.message, text


def _error_line(one: Diagnostic, server: str) -> str:
    message = one_line(clean_line(one.message), _MESSAGE_CHARS)
    code = f" [{one_line(str(one.code), 60)}]" if isinstance(one.code, str | int) else ""
    return f"{one.line + 1}:{one.range.start.character + 1} {message}{code} ({server})"


def _error_text(path: str, roots: Sequence[str], lines: list[str]) -> str:
    root = next((root for root in roots if _is_below(path, root)), "")
    shown = os.path.relpath(path, root) if root else path
    more = [f"... and {len(lines) - _MAX_SHOWN} more"] if len(lines) > _MAX_SHOWN else []
    text = wrap_in_tag("diagnostics", "\n".join([*lines[:_MAX_SHOWN], *more]), file=shown)
    return f"This edit added {count_text(len(lines), 'error')}:\n{text}"


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def _read_text(path: str) -> str | None:
    """The text of a file; None if there is none, or if it is too large or no text."""
    try:
        with open_regular(path) as file:
            data = file.read(_MAX_FILE_BYTES + 1)
    except OSError:
        return None
    try:
        return data.decode("utf-8-sig") if len(data) <= _MAX_FILE_BYTES else None
    except UnicodeDecodeError:
        return None
