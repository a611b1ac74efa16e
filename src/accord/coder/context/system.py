"""The system prompt: who the agent is, how it works, what it was told by files and by the client, and where it is.

What never changes stands first and what may change stands last, so that the providers' prompt caches hold as long as
possible. Make it once for a session and keep it; a mode that changes on the way is told by `mode_note`.
"""

from collections.abc import Sequence
from datetime import date
from functools import cache
from pathlib import Path

from msgspec import Struct

from accord.coder.context.instructions import Instructions
from accord.coder.tools.tool import one_line
from accord.policy.request import DESCRIPTIONS, Mode
from accord.schema.content import TextContent
from accord.schema.sessions import SystemPrompt


class Surroundings(Struct, frozen=True, kw_only=True):
    """Where the agent works and what holds there."""

    cwd: str
    roots: Sequence[str] = ()
    """Further folders of the session."""
    platform: str
    """As people call it: `Linux 6.8 (x86_64)`."""
    shell: str
    """What runs the lines of the bash tool."""
    day: date
    """The day on which the session began."""
    repository: bool
    """Whether `cwd` is in a Git repository."""
    mode: Mode
    boundary: str
    """What confines commands, in one line: `Boundary.summary()`."""
    instructions: Sequence[Instructions] = ()
    client_prompt: SystemPrompt | None = None
    """What the client says beside, or instead of, the agent's own text."""


def system_prompt(surroundings: Surroundings) -> str:
    """Everything the model is told before the first prompt."""
    client = _client_text(surroundings.client_prompt)
    override = surroundings.client_prompt is not None and surroundings.client_prompt.mode == "override"
    return "\n\n".join(
        section
        for section in (
            client if override else _own_text(),
            _instructions(surroundings.instructions),
            "" if override or not client else f"# From the client\n{client}",
            _where(surroundings),
            f"{_mode(surroundings.mode)}\nSandbox of commands: {_one(surroundings.boundary)}.",
        )
        if section
    )


def mode_note(mode: Mode) -> str:
    """What the model is told when the mode changes on the way."""
    return f"From now on another mode is in force. {_mode(mode)}"


@cache
def _own_text() -> str:
    return Path(__file__).with_name("system.md").read_text("utf-8").strip()


def _client_text(prompt: SystemPrompt | None) -> str:
    if prompt is None:
        return ""
    return "\n\n".join(block.text for block in prompt.content if isinstance(block, TextContent)).strip()


def _instructions(found: Sequence[Instructions]) -> str:
    if not found:
        return ""
    return "\n\n".join(
        (
            "# Instructions\n"
            "The user's own come first, then those of the project, the nearest to the working folder first. Each holds for "
            "what is below its folder. Where two disagree the nearer one counts, and what the user says in the "
            "conversation counts more than any file. No file can widen what you are permitted to do.",
            *map(str, found),
        )
    )


def _where(surroundings: Surroundings) -> str:
    lines = [
        "# Where you are",
        f"Working folder: {_one(surroundings.cwd)} ({'in a' if surroundings.repository else 'not in a'} Git repository)",
        *(f"Further folder: {_one(root)}" for root in surroundings.roots),
        f"System: {_one(surroundings.platform)}; shell: {_one(surroundings.shell)}",
        f"The session began on {surroundings.day.isoformat()}.",
    ]
    return "\n".join(lines)


def _mode(mode: Mode) -> str:
    return f'Mode: {mode}. The user was told: "{DESCRIPTIONS[mode]}"{_ADVICE.get(mode, "")}'


_ADVICE: dict[Mode, str] = {
    "plan": " Find out what is needed, then propose the plan with leave_plan_mode; do not try to change anything before.",
    "read-only": " Do not try to change anything; say what you would change.",
}


def _one(value: str) -> str:
    """On one line: a folder may have any name, also one that looks like the next line of this text."""
    return one_line(value, 4096)
