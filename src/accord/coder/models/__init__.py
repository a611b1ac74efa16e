"""Models: the contract with the agent loop, the providers, the rehearsal model, and the choice of one.

The first request to a provider imports its wire format, or an earlier call of `preload_provider`. Names of
this package are imported on first use.
"""

from typing import TYPE_CHECKING

from accord.lazy_names import LazyGetattr, lazy_names

if TYPE_CHECKING:
    from accord.coder.models.model import (
        Model,
        ModelError,
        ModelEvent,
        ModelRequest,
        RequestUsage,
        Retrying,
        Stopped,
        TextDelta,
        ThoughtDelta,
        ToolSpec,
    )
    from accord.coder.models.model_registry import ModelRegistry

__all__ = [
    "Model", "ModelError", "ModelEvent", "ModelRegistry", "ModelRequest", "RequestUsage", "Retrying",
    "Stopped", "TextDelta", "ThoughtDelta", "ToolSpec",
]  # fmt: skip

__getattr__: LazyGetattr = lazy_names(
    __name__,
    {
        "accord.coder.models.model": (
            "Model ModelError ModelEvent ModelRequest RequestUsage Retrying Stopped TextDelta ThoughtDelta "
            "ToolSpec"
        ),
        "accord.coder.models.model_registry": "ModelRegistry",
    },
)
