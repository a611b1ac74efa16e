"""A library of models that knows nothing of the machine it runs on."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from accord.coder.models import Models, ModelsConfig

NOWHERE = Path("/nowhere/credentials.json")


def models(
    environment: Mapping[str, str] | None = None, config: ModelsConfig | None = None, **more: Any
) -> Models:
    options: dict[str, Any] = {"keys": NOWHERE, **more}
    return Models(config or ModelsConfig(), environment=environment or {}, **options)
