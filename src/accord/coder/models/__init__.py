"""Models: the contract with the agent loop, the providers, the rehearsal model, and the choice of one.

The first request to a provider imports its wire format, or an earlier call of `preload_provider`. Names of
this package are imported on first use.
"""

from typing import TYPE_CHECKING

from accord.lazy_names import LazyGetattr, lazy_names

if TYPE_CHECKING:
    from accord.coder.library_imports import preload_provider, preload_provider_in_background
    from accord.coder.models.credentials import CredentialsError, remove_key, save_key
    from accord.coder.models.model import (
        EFFORTS,
        AnswerDraft,
        Effort,
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
    from accord.coder.models.model_name import ModelName
    from accord.coder.models.model_registry import (
        AvailableModel,
        ModelChoice,
        ModelRegistry,
        Resolver,
        UnknownModel,
    )
    from accord.coder.models.rehearsal_model import RehearsalModel
    from accord.coder.user_config import ConfigError, ModelsConfig

__all__ = [
    "EFFORTS",
    "AnswerDraft",
    "AvailableModel",
    "ConfigError",
    "CredentialsError",
    "Effort",
    "Model",
    "ModelChoice",
    "ModelError",
    "ModelEvent",
    "ModelName",
    "ModelRegistry",
    "ModelRequest",
    "ModelsConfig",
    "RehearsalModel",
    "RequestUsage",
    "Resolver",
    "Retrying",
    "Stopped",
    "TextDelta",
    "ThoughtDelta",
    "ToolSpec",
    "UnknownModel",
    "preload_provider",
    "preload_provider_in_background",
    "remove_key",
    "save_key",
]

__getattr__: LazyGetattr = lazy_names(
    __name__,
    {
        "accord.coder.library_imports": "preload_provider preload_provider_in_background",
        "accord.coder.models.credentials": "CredentialsError remove_key save_key",
        "accord.coder.models.model": (
            "EFFORTS Effort Model ModelError ModelEvent ModelRequest AnswerDraft RequestUsage Retrying "
            "Stopped TextDelta ThoughtDelta ToolSpec"
        ),
        "accord.coder.models.model_name": "ModelName",
        "accord.coder.models.model_registry": (
            "ModelChoice UnknownModel ModelRegistry Resolver AvailableModel"
        ),
        "accord.coder.models.rehearsal_model": "RehearsalModel",
        "accord.coder.user_config": "ConfigError ModelsConfig",
    },
)
