"""A scene with a client: the checker plays the agent."""

from typing import TypeAlias

from accord.check import scene
from accord.check.client.stage import Stage

Scene: TypeAlias = scene.Scene[Stage]
