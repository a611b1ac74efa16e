"""The stand-in for another ACP agent where a model is expected: `--model acp:NAME`."""

from collections.abc import AsyncGenerator, Sequence
from typing import Final

from accord.coder.models.model import Effort, Model, ModelError, ModelEvent, ModelRequest

ACP: Final = "acp"
"""The provider of models that are other agents."""


class AgentAsModel:
    """Another agent. Its turns go through its own session, so it answers no model requests."""

    provider: str = ACP
    efforts: Sequence[Effort] = ()
    sees_images: bool = True
    context_size: int | None = None
    max_tools: int | None = None

    def __init__(self, name: str) -> None:
        self.name: str = name

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Raise ModelError: an agent answers only prompts."""
        raise ModelError("other", f"{ACP}:{self.name} is another agent: it answers prompts only")
        yield  # the function is a generator


def agent_as_model(name: str) -> Model:
    """The stand-in for the agent of this name."""
    return AgentAsModel(name)
