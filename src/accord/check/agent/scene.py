"""A scene with an agent: the checker plays the client."""

from typing import TypeAlias

from accord.check import scene
from accord.check.agent.stage import Stage

Scene: TypeAlias = scene.Scene[Stage]
