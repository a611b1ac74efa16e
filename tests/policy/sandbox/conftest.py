"""Every test of a boundary runs in every backend that works here."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.policy.sandbox.cage import Cage

from accord.policy.sandbox import probe
from accord.policy.sandbox.backend import Backend
from accord.policy.sandbox.bubblewrap import Bubblewrap

# Who is not root runs bubblewrap in a user namespace anyway.
MOUNTED = ["bubblewrap", "bubblewrap-as-user"] if os.geteuid() == 0 else ["bubblewrap"]


def working(name: str) -> Backend:
    """The backend, or a skip that says why the machine does not let it run."""
    found = probe.probe(name.removesuffix("-as-user"))
    if found.backend is None:
        pytest.skip(f"the kernel or its settings decide whether {name} can run, and here: {found.why_not}")
    if name != "bubblewrap-as-user":
        return found.backend
    if os.geteuid() != 0:
        pytest.skip(
            "who is not root runs bubblewrap in a user namespace anyway, in the tests of `bubblewrap`"
        )
    assert isinstance(found.backend, Bubblewrap)
    return found.backend.in_user_namespace()


@pytest.fixture(params=[*MOUNTED, "landlock"])
def cage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cage]:
    """A world with a sandbox of each kind."""
    made = Cage(tmp_path.resolve(), working(request.param))
    yield made
    made.close()


@pytest.fixture(params=MOUNTED)
def mounted(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cage]:
    """A world with a sandbox that has a file system of its own."""
    made = Cage(tmp_path.resolve(), working(request.param))
    yield made
    made.close()


@pytest.fixture
def landlocked(tmp_path: Path) -> Iterator[Cage]:
    """A world with a sandbox of Landlock."""
    made = Cage(tmp_path.resolve(), working("landlock"))
    yield made
    made.close()
