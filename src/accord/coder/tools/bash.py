"""`bash`: runs a shell line, on this machine or in a client's terminal, to its end or in the background."""

import asyncio
import contextlib
import errno
import math
import os
import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Final, cast

from msgspec import Meta

from accord import telemetry
from accord.agent.client_services import ClientTerminal, CommandResult
from accord.clock import within
from accord.coder.bounded_text import CommandOutput, clean_output, truncate
from accord.coder.files.exact_disk import ResolvedFile
from accord.coder.model_history import TextPart
from accord.coder.tools.builtin_tool import BuiltInTool, ToolArguments
from accord.coder.tools.client_terminals import TerminalLaunch
from accord.coder.tools.shell_jobs import CommandLaunch, LocalCommand, ShownCommand
from accord.coder.tools.tool import (
    CallSubject,
    PreparedCall,
    Report,
    ToolFailure,
    ToolOutcome,
    ToolProgress,
    text_outcome,
)
from accord.coder.tools.tool_context import ToolContext, ToolLimits
from accord.errors import AccordError
from accord.safe_text import one_line
from accord.schema.content import Content, Terminal, TextContent, ToolCallContent, code_block
from accord.workspace.terminals import ExitStatus

if TYPE_CHECKING:
    from accord.policy.programs.safe_git import GuardedLine
    from accord.policy.sandbox.steering_watch import SteeringState

_TRUNCATION_ADVICE: Final = (
    "to see it, send the output to a file and read that, or filter with grep, head or tail"
)
_TIMEOUT_ADVICE: Final = "; give it a longer timeout, or run it in the background"
_MAX_COMMAND_BYTES: Final = 100_000
"""Less than Linux accepts as one argument of a program; the sandbox adds some bytes."""
_NAMED_FILES: Final = 5
_UNTRUSTED: Final = "the user should look at them before git, an editor or an agent uses them"
_READ_ONLY_ERRORS: Final = (os.strerror(errno.EBUSY), os.strerror(errno.EROFS))
_READ_ONLY_ADVICE: Final = (
    "a git command that had to change one of them is incomplete: see `git status`, and repair it or run it "
    "again with `outside_sandbox`; the user is asked"
)
_LIMITS: Final = ToolLimits()
# There is no keyboard input: no program may open a pager or wait for a password.
_NO_INPUT_ENV: Final = {"PAGER": "cat", "GIT_PAGER": "cat", "MANPAGER": "cat", "GIT_TERMINAL_PROMPT": "0"}


class BashArguments(ToolArguments):
    command: Annotated[str, Meta(min_length=1, description="The shell line to run.")]
    timeout: Annotated[
        float | None,
        Meta(
            description="Seconds until the command is ended. "
            f"{_LIMITS.command_seconds:g} if left out, at most {_LIMITS.max_command_seconds:g}."
        ),
    ] = None
    background: Annotated[
        bool, Meta(description="Leave it running and return at once. Look at it later with the job tool.")
    ] = False
    cwd: Annotated[str | None, Meta(description="The folder to run it in, if not the working folder.")] = None
    outside_sandbox: Annotated[
        bool, Meta(description="Run it without the sandbox. The user is asked; only for what fails inside.")
    ] = False
    description: Annotated[str | None, Meta(description="What it does, in a few words for the user.")] = None

    @classmethod
    def repair(cls, members: dict[str, Any]) -> dict[str, Any]:
        """Accept the command as a list of words, as other agents have it."""
        command = members.get("command")
        line = line_of_words(cast(list[Any], command)) if isinstance(command, list) else None
        return members if line is None else {**members, "command": line}


def line_of_words(words: Sequence[Any]) -> str | None:
    """Return the shell line for a list of words; None if one is no text.

    `["bash", "-lc", LINE]` and `[LINE]` are the line itself.
    """
    if not words or not all(isinstance(word, str) for word in words):
        return None
    if len(words) == 1:
        return words[0]
    if len(words) == 3 and os.path.basename(words[0]) in ("bash", "sh") and words[1] in ("-c", "-lc"):
        return words[2]
    return shlex.join(words)


async def prepare(arguments: BashArguments, context: ToolContext) -> PreparedCall:
    line = arguments.command
    if "\0" in line:
        raise ToolFailure("bash was not run: there is a NUL character in the command")
    if len(line.encode()) > _MAX_COMMAND_BYTES:
        raise ToolFailure(
            f"bash was not run: the command is longer than {_MAX_COMMAND_BYTES:,} bytes; "
            "write it to a file and run that"
        )
    folder = await context.resolve(arguments.cwd or ".")

    async def check() -> None:
        if not await asyncio.to_thread(os.path.isdir, folder.real):
            raise ToolFailure(f"{folder.path} does not exist; `cwd` must be an existing folder")
        if arguments.background:
            context.jobs.require_slot()
        _prepare_launch(line, {}, folder, arguments, context)  # the sandbox may not open this folder

    async def run(report: Report) -> ToolOutcome:
        await check()
        guarded = await asyncio.to_thread(_guard, line, folder, context)
        launch = _prepare_launch(guarded.line, guarded.env, folder, arguments, context)
        watch = context.steering if launch.confined else None
        before = None if watch is None else await asyncio.to_thread(watch.state)
        if arguments.background:
            return await _run_in_background(line, launch, context, before)
        limits = context.limits
        timeout = arguments.timeout
        if timeout is None or math.isnan(timeout):
            timeout = limits.command_seconds
        seconds = min(max(timeout, 1), limits.max_command_seconds)
        try:
            outcome = await _run_in_client(line, launch, seconds, report, context)
            outcome = outcome or await _run_locally(launch, seconds, report, context)
        except BaseException:
            await asyncio.shield(_note_unreported(context, before))
            raise
        notes = [*_git_notes(guarded), *_read_only_notes(outcome, before, context)]
        return with_notes(outcome, [*notes, *await steering_notes(context, before)])

    async def preview() -> Sequence[ToolCallContent]:
        """Show the whole line and its folder: some clients show only title and content."""
        return (code_block(f"$ {line}", language="sh"), Content(TextContent(f"in {folder.path}")))

    return PreparedCall(
        title=one_line(line),
        subject=CallSubject(
            command=line,
            cwd=folder.real,
            outside_sandbox=arguments.outside_sandbox and context.sandbox is not None,
            sandboxed=context.sandbox is not None and not arguments.outside_sandbox,
        ),
        run=run,
        check=check,
        preview=preview,
    )


def _guard(line: str, folder: ResolvedFile, context: ToolContext) -> "GuardedLine":
    """Return the line with read-only git commands that run no program of the project and show no secret."""
    from accord.policy.programs.safe_git import GuardedLine
    from accord.policy.request import ActionRequest, SessionDirectories
    from accord.policy.requested_actions import guarded_line

    request = ActionRequest(
        directories=SessionDirectories.of(context.cwd), category="execute", command=line, cwd=folder.real
    )
    return guarded_line(request) or GuardedLine(line)


def _prepare_launch(
    line: str, env: Mapping[str, str], folder: ResolvedFile, arguments: BashArguments, context: ToolContext
) -> CommandLaunch:
    own_env = {**_NO_INPUT_ENV, **telemetry.environment(), **env}
    argv = [_shell(context), "-c", line]
    if context.sandbox is not None and not arguments.outside_sandbox:
        confined = context.sandbox.wrap(argv, env=own_env, cwd=folder.real)
        launch = CommandLaunch(confined.argv, confined.env, confined.cwd, confined=True)
    else:
        launch = CommandLaunch(argv, {**context.environment, **own_env}, folder.real)
    return replace(launch, line=arguments.command, folder=folder.path)


def _shell(context: ToolContext) -> str:
    return shutil.which("bash", path=context.environment.get("PATH")) or "/bin/sh"


def _git_notes(guarded: "GuardedLine") -> list[str]:
    if not guarded.left_out:
        return []
    return [f"git leaves out files that may hold secrets: {_listed(guarded.left_out)}"]


def _read_only_notes(outcome: ToolOutcome, before: "SteeringState | None", context: ToolContext) -> list[str]:
    """Explain why a command could not change a file that is read-only in the sandbox.

    `git checkout` of a branch that changes such a file goes on without it and may even report success.
    """
    text = "".join(part.text for part in outcome.parts if isinstance(part, TextPart))
    if not before or not any(error in text for error in _READ_ONLY_ERRORS):
        return []
    lines = [line for line in text.splitlines() if any(error in line for error in _READ_ONLY_ERRORS)]
    names = [
        context.display_path(path) for path in before if any(os.path.basename(path) in line for line in lines)
    ]
    return [f"read-only in the sandbox: {_listed(names)}; {_READ_ONLY_ADVICE}"] if names else []


async def steering_notes(context: ToolContext, before: "SteeringState | None" = None) -> list[str]:
    """Return notes on files that were written since `before` and that steer other programs.

    Also those of commands that ended without a result for the model.
    """
    if context.steering is None:
        return []
    earlier = context.steering.unreported
    notes, earlier[:] = [*earlier], []
    return [*notes, *await _change_notes(context, before)]


async def _note_unreported(context: ToolContext, before: "SteeringState | None") -> None:
    """Look at what a background job or a cancelled command wrote; tell the user now, the model later."""
    for note in await _change_notes(context, before):
        if context.steering is not None:
            context.steering.unreported.append(note)
        if context.warn is not None:
            with contextlib.suppress(AccordError):  # the client may be gone
                await context.warn("Control files", note)


async def _change_notes(context: ToolContext, before: "SteeringState | None") -> list[str]:
    if context.steering is None or before is None:
        return []
    try:
        changed = await asyncio.to_thread(context.steering.changes, before)
    except OSError as error:
        return [f"files that steer other programs were written, but not recorded: {error.strerror}"]
    names = [context.display_path(path) for path in changed]
    return [f"new files that steer other programs: {_listed(names)}; {_UNTRUSTED}"] if names else []


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED_FILES} more" if len(names) > _NAMED_FILES else ""
    return one_line(", ".join(names[:_NAMED_FILES]), 300) + more


def with_notes(outcome: ToolOutcome, notes: Sequence[str]) -> ToolOutcome:
    """Add what the model and the user should know about a command besides its output."""
    if not notes:
        return outcome
    text = "\n".join(f"[{note}]" for note in notes)
    content = (*(outcome.content or ()), Content(TextContent(text)))
    return replace(outcome, parts=(*outcome.parts, TextPart(text)), content=content)


async def _run_in_background(
    line: str, launch: CommandLaunch, context: ToolContext, before: "SteeringState | None"
) -> ToolOutcome:
    job = await context.jobs.start(
        line,
        launch,
        context.limits.output_chars,
        context.clock,
        on_end=None if before is None else lambda: _note_unreported(context, before),
        display=context.display,
    )
    outcome = text_outcome(
        f"Running in the background as {job.id}. See its output, wait for it or stop it with the job tool.",
        raw={"job": job.id},
        shown=f"Running in the background as {job.id}.",
    )
    if job.shown is None:
        return outcome
    return replace(outcome, content=(Terminal(job.shown.terminal.id), *(outcome.content or ())))


async def _run_locally(
    launch: CommandLaunch, seconds: float, report: Report, context: ToolContext
) -> ToolOutcome:
    output = CommandOutput(context.limits.output_chars)
    changed = asyncio.Event()

    def add(text: str) -> None:
        output.add(text)
        if shown is None:
            changed.set()
        else:
            shown.add(text)

    async def show() -> None:
        while True:
            await changed.wait()
            changed.clear()
            await report(ToolProgress(content=(code_block(output.text()),)))
            await context.clock.sleep(context.limits.report_seconds)

    local = LocalCommand(launch, add, context.clock)
    display, limit = context.display, context.limits.output_chars
    shown = None
    if display is not None:
        shown = ShownCommand(display, launch, local.kill, limit, context.clock)
    await report(ToolProgress(output=lambda: output.text(_TRUNCATION_ADVICE)))
    async with contextlib.AsyncExitStack() as stack:
        async with local as command:
            if shown is not None:
                await stack.enter_async_context(shown)
                await report(ToolProgress(content=(Terminal(shown.terminal.id),)))
            update_task = asyncio.ensure_future(show())
            exit_task = asyncio.ensure_future(command.wait())
            try:
                in_time = await within(context.clock, seconds, exit_task)
                if not in_time:
                    await command.kill()
                status = command.status or ExitStatus()
            finally:
                for task in (update_task, exit_task):
                    task.cancel()
                await asyncio.gather(update_task, exit_task, return_exceptions=True)
        if shown is not None:
            await shown.end(status)
    return _local_outcome(output, status, None if in_time else seconds, shown)


def _local_outcome(
    output: CommandOutput, status: ExitStatus, stopped_after: float | None, shown: ShownCommand | None
) -> ToolOutcome:
    text, timed_out = output.text(_TRUNCATION_ADVICE), stopped_after is not None
    content = code_block(_output_with_status(output.text(), status, stopped_after))
    outcome = ToolOutcome(
        (TextPart(_output_with_status(text, status, stopped_after, _TIMEOUT_ADVICE)),),
        (content if shown is None else Terminal(shown.terminal.id),),
        _raw_output(text, status, timed_out=timed_out, truncated=not output.complete),
        failed=timed_out or status.exit_code != 0,
    )
    cancelled = shown is not None and shown.cancelled
    return with_notes(outcome, ["the user canceled this command"] if cancelled else [])


async def _run_in_client(
    line: str, launch: CommandLaunch, seconds: float, report: Report, context: ToolContext
) -> ToolOutcome | None:
    """Run the line in a terminal of the client. None if it was not run and has to run on this machine."""
    if context.terminal is None or not context.terminals.usable:
        return None
    content: tuple[ToolCallContent, ...] = ()

    async def show(terminal: ClientTerminal) -> None:
        nonlocal content
        content = (Terminal(terminal.id),)
        await report(ToolProgress(content=content))

    inherited: Mapping[str, str] = {} if launch.confined else context.environment
    terminal_launch = TerminalLaunch(
        shell=_shell(context),
        line=line,
        argv=launch.argv,
        env={name: value for name, value in launch.env.items() if inherited.get(name) != value},
        cwd=launch.cwd,
        confined=launch.confined,
        hidden_variables=context.hidden_variables,
    )
    result = await context.terminals.run(
        context.terminal, terminal_launch, context.cwd, context.clock, seconds, show
    )
    return None if result is None else _terminal_outcome(result, content, seconds, context)


def _terminal_outcome(
    result: CommandResult, content: Sequence[ToolCallContent], seconds: float, context: ToolContext
) -> ToolOutcome:
    text = truncate(clean_output(result.output), context.limits.output_chars, _TRUNCATION_ADVICE)
    status = ExitStatus(result.exit_code, result.signal)
    stopped_after = seconds if result.timed_out else None
    return ToolOutcome(
        (TextPart(_output_with_status(text, status, stopped_after, _TIMEOUT_ADVICE)),),
        content,
        _raw_output(text, status, timed_out=result.timed_out, truncated=result.truncated),
        failed=result.timed_out or status.exit_code != 0,
    )


def _output_with_status(text: str, status: ExitStatus, stopped_after: float | None, advice: str = "") -> str:
    """The output and how the command ended. `advice` is for the model: what to do after a timeout."""
    output = text.rstrip("\n") or "(no output)"
    if stopped_after is not None:
        return f"{output}\n[stopped after {stopped_after:g} s{advice}]"
    if status.signal is not None:
        return f"{output}\n[ended by {status.signal}]"
    return output if status.exit_code == 0 else f"{output}\n[exit code {status.exit_code}]"


def _raw_output(text: str, status: ExitStatus, *, timed_out: bool, truncated: bool) -> dict[str, object]:
    return {
        "output": text,
        "exit_code": status.exit_code,
        "signal": status.signal,
        "timed_out": timed_out,
        "truncated": truncated,
    }


BASH: Final = BuiltInTool("bash", "execute", "execute", BashArguments, prepare)
