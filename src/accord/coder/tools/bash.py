"""`bash`: runs a shell line, on this machine or in a client's terminal, to its end or in the background."""

import asyncio
import math
import shutil
from collections.abc import Mapping, Sequence
from typing import Annotated, Final

from msgspec import Meta

from accord.clock import within
from accord.coder.bounded_text import CommandOutput, clean_output, truncate
from accord.coder.files.exact_disk import ResolvedFile
from accord.coder.model_history import TextPart
from accord.coder.shell_jobs import CommandLaunch, LocalCommand
from accord.coder.tools.builtin_tool import BuiltInTool, ToolArguments
from accord.coder.tools.tool import (
    CallSubject,
    PreparedCall,
    Report,
    ToolFailure,
    ToolOutcome,
    ToolProgress,
    text_outcome,
)
from accord.coder.tools.tool_context import OpenTerminal, ToolContext, ToolLimits
from accord.safe_text import one_line
from accord.schema.content import Terminal, ToolCallContent, code_block
from accord.workspace.terminals import ExitStatus

_TRUNCATION_ADVICE: Final = (
    "to see it, send the output to a file and read that, or filter with grep, head or tail"
)
_CLIENT_OUTPUT_BYTES: Final = 1024 * 1024
_MAX_COMMAND_BYTES: Final = 100_000
"""Less than Linux accepts as one argument of a program; the sandbox adds some bytes."""
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

    async def run(report: Report) -> ToolOutcome:
        exists = await context.files.disk.stat(folder) if folder.real != "/" else True
        if not exists:
            raise ToolFailure(f"{folder.path} does not exist; `cwd` must be an existing folder")
        if arguments.background:
            return await _run_in_background(line, folder, arguments, context)
        limits = context.limits
        timeout = arguments.timeout
        if timeout is None or math.isnan(timeout):
            timeout = limits.command_seconds
        seconds = min(max(timeout, 1), limits.max_command_seconds)
        launch = _prepare_launch(line, folder, arguments, context)
        if context.terminal is not None:
            return await _run_in_client(context.terminal, launch, seconds, report, context)
        return await _run_locally(launch, seconds, report, context)

    async def preview() -> Sequence[ToolCallContent]:
        """Show the whole line if the title shortens it."""
        return (code_block(line, language="sh"),) if one_line(line) != line else ()

    return PreparedCall(
        title=one_line(line),
        subject=CallSubject(
            command=line,
            cwd=folder.real,
            outside_sandbox=arguments.outside_sandbox and context.sandbox is not None,
            sandboxed=context.sandbox is not None and not arguments.outside_sandbox,
        ),
        run=run,
        preview=preview,
    )


def _prepare_launch(
    line: str, folder: ResolvedFile, arguments: BashArguments, context: ToolContext
) -> CommandLaunch:
    env = {**context.environment, **_NO_INPUT_ENV}
    shell = shutil.which("bash", path=env.get("PATH")) or "/bin/sh"
    argv = [shell, "-c", line]
    if context.sandbox is not None and not arguments.outside_sandbox:
        confined = context.sandbox.wrap(argv, env=_NO_INPUT_ENV, cwd=folder.real)
        return CommandLaunch(confined.argv, confined.env, confined.cwd, confined=True)
    return CommandLaunch(argv, env, folder.real)


async def _run_in_background(
    line: str, folder: ResolvedFile, arguments: BashArguments, context: ToolContext
) -> ToolOutcome:
    launch = _prepare_launch(line, folder, arguments, context)
    job = await context.jobs.start(line, launch, context.limits.output_chars, context.clock)
    return text_outcome(
        f"Running in the background as {job.id}. See its output, wait for it or stop it with the job tool.",
        raw={"job": job.id},
    )


async def _run_locally(
    launch: CommandLaunch, seconds: float, report: Report, context: ToolContext
) -> ToolOutcome:
    output = CommandOutput(context.limits.output_chars)
    changed = asyncio.Event()

    def add(text: str) -> None:
        output.add(text)
        changed.set()

    async def show() -> None:
        while True:
            await changed.wait()
            changed.clear()
            await report(ToolProgress(content=(code_block(output.text()),)))
            await context.clock.sleep(context.limits.report_seconds)

    async with LocalCommand(launch, add, context.clock) as command:
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
    text = output.text(_TRUNCATION_ADVICE)
    shown_output = _output_with_status(text, status, None if in_time else seconds)
    return ToolOutcome(
        (TextPart(shown_output),),
        (code_block(shown_output),),
        _raw_output(text, status, timed_out=not in_time, truncated=not output.complete),
        failed=not in_time or status.exit_code != 0,
    )


async def _run_in_client(
    open_terminal: OpenTerminal, launch: CommandLaunch, seconds: float, report: Report, context: ToolContext
) -> ToolOutcome:
    program, *args = launch.argv
    # A command inherits the client's environment. Only an empty value hides a variable from it.
    sandbox_env: Mapping[str, str] = launch.env if launch.confined else {}
    env = {**dict.fromkeys(context.hidden_variables, ""), **_NO_INPUT_ENV, **sandbox_env}
    terminal = open_terminal(program, args, env=env, cwd=launch.cwd, output_byte_limit=_CLIENT_OUTPUT_BYTES)
    async with terminal:
        content = (Terminal(terminal.id),)
        await report(ToolProgress(content=content))
        result = await terminal.finish(seconds)
    text = truncate(clean_output(result.output), context.limits.output_chars, _TRUNCATION_ADVICE)
    status = ExitStatus(result.exit_code, result.signal)
    return ToolOutcome(
        (TextPart(_output_with_status(text, status, seconds if result.timed_out else None)),),
        content,
        _raw_output(text, status, timed_out=result.timed_out, truncated=result.truncated),
        failed=result.timed_out or status.exit_code != 0,
    )


def _output_with_status(text: str, status: ExitStatus, stopped_after: float | None) -> str:
    output = text.rstrip("\n") or "(no output)"
    if stopped_after is not None:
        advice = "give it a longer timeout, or run it in the background"
        return f"{output}\n[stopped after {stopped_after:g} s; {advice}]"
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
