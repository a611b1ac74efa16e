"""A model registry that does not depend on the machine's environment."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from accord.coder.models import Models, ModelsConfig

MISSING_FILE = Path("/nowhere/credentials.json")


def models(
    environment: Mapping[str, str] | None = None, config: ModelsConfig | None = None, **more: Any
) -> Models:
    options: dict[str, Any] = {"keys": MISSING_FILE, **more}
    return Models(config or ModelsConfig(), environment=environment or {}, **options)
