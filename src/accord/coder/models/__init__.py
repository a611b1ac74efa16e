"""What thinks for the agent: the seam to the loop, real providers, the rehearsal, and how one is chosen.

Nothing here imports a provider's library before the first request to it, or `preload`.
"""

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
