"""What one server offers, in our own words: cleaned and bounded, free of any version of MCP."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool, as the server describes it."""

    name: str
    """As the server knows it; for nobody else."""
    title: str
    description: str
    schema: dict[str, Any]
    read_only: bool = False
    """What the server claims."""


@dataclass(frozen=True, slots=True)
class PromptArgument:
    """Something to fill into a prompt."""

    name: str
    description: str = ""
    required: bool = False


@dataclass(frozen=True, slots=True)
class OfferedPrompt:
    """A prompt, as the server describes it."""

    name: str
    title: str
    description: str
    arguments: tuple[PromptArgument, ...] = ()


@dataclass(frozen=True, slots=True)
class OfferedResource:
    """A resource, or a template of addresses of such."""

    uri: str
    name: str
    description: str = ""
    mime_type: str = ""
    template: bool = False


@dataclass(frozen=True, slots=True)
class Offers:
    """Everything that a server offers at a time."""

    tools: tuple[OfferedTool, ...] = ()
    prompts: tuple[OfferedPrompt, ...] = ()
    resources: tuple[OfferedResource, ...] = ()
    instructions: str = ""
    has_resources: bool = field(default=False)
    """Whether it has resources at all, also if there are none right now."""
