"""Runs each sandbox test with every backend that works on this machine."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.policy.sandbox.sandbox_harness import SandboxHarness

from accord.policy.sandbox import sandbox
from accord.policy.sandbox.backend import Backend
from accord.policy.sandbox.bubblewrap import Bubblewrap

# Without root, bubblewrap always runs in a user namespace.
MOUNTED = ["bubblewrap", "bubblewrap-as-user"] if os.geteuid() == 0 else ["bubblewrap"]


def working(name: str) -> Backend:
    """Return the backend, or skip the test with the reason why it does not run here."""
    found = sandbox.probe(name.removesuffix("-as-user"))
    if found.backend is None:
        pytest.skip(f"{name} does not run on this machine: {found.reason}")
    if name != "bubblewrap-as-user":
        return found.backend
    if os.geteuid() != 0:
        pytest.skip("without root, the tests of `bubblewrap` already run in a user namespace")
    assert isinstance(found.backend, Bubblewrap)
    return found.backend.in_user_namespace()


@pytest.fixture(params=[*MOUNTED, "landlock"])
def harness(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SandboxHarness]:
    """A harness for each backend."""
    made = SandboxHarness(tmp_path.resolve(), working(request.param))
    yield made
    made.close()


@pytest.fixture(params=MOUNTED)
def mounted(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SandboxHarness]:
    """A harness for each backend that mounts its own file system."""
    made = SandboxHarness(tmp_path.resolve(), working(request.param))
    yield made
    made.close()


@pytest.fixture
def landlocked(tmp_path: Path) -> Iterator[SandboxHarness]:
    """A harness for Landlock."""
    made = SandboxHarness(tmp_path.resolve(), working("landlock"))
    yield made
    made.close()
