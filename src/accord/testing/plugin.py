"""The pytest plugin that comes with Accord. Loaded in every pytest run where Accord is installed, so it imports late."""

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from accord.testing.clock import FakeClock


@pytest.fixture
def fake_clock() -> "FakeClock":
    """A clock whose hands the test turns."""
    from accord.testing.clock import FakeClock

    return FakeClock()
