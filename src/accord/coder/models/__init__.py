"""What thinks for the agent: the seam to the loop, real providers, the rehearsal, and how one is chosen.

Nothing here imports a provider's library before the first request to it, or `preload`. Names are imported on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from accord.coder.models.choice import Choice, UnknownModel
    from accord.coder.models.config import ConfigError, ModelsConfig
    from accord.coder.models.credentials import CredentialsError, remove_key, save_key
    from accord.coder.models.library import Models, Resolver
    from accord.coder.models.loading import preload, preload_in_background
    from accord.coder.models.model import (
        EFFORTS,
        Draft,
        Effort,
        Model,
        ModelError,
        ModelEvent,
        ModelRequest,
        Retrying,
        Stopped,
        TextDelta,
        ThoughtDelta,
        ToolSpec,
        Usage,
    )
    from accord.coder.models.names import ModelName
    from accord.coder.models.offers import Offer
    from accord.coder.models.rehearsal.model import Rehearsal

__all__ = [
    "EFFORTS",
    "Choice",
    "ConfigError",
    "CredentialsError",
    "Draft",
    "Effort",
    "Model",
    "ModelError",
    "ModelEvent",
    "ModelName",
    "ModelRequest",
    "Models",
    "ModelsConfig",
    "Offer",
    "Rehearsal",
    "Resolver",
    "Retrying",
    "Stopped",
    "TextDelta",
    "ThoughtDelta",
    "ToolSpec",
    "UnknownModel",
    "Usage",
    "preload",
    "preload_in_background",
    "remove_key",
    "save_key",
]

_HOMES: Final = {
    "choice": "Choice UnknownModel",
    "config": "ConfigError ModelsConfig",
    "credentials": "CredentialsError remove_key save_key",
    "library": "Models Resolver",
    "loading": "preload preload_in_background",
    "model": "EFFORTS Draft Effort Model ModelError ModelEvent ModelRequest Retrying Stopped TextDelta ThoughtDelta ToolSpec Usage",
    "names": "ModelName",
    "offers": "Offer",
    "rehearsal.model": "Rehearsal",
}


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names.split():
            return getattr(import_module(f"{__name__}.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
