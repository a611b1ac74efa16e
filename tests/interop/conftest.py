"""The conversations of the interop tests: each pair of peers talks once in a test run, and all tests judge that."""

from collections.abc import Callable

import pytest
from tests.interop.conversation import Conversation, play

Played = Callable[[str, str], Conversation]


@pytest.fixture(scope="session")
def played(tmp_path_factory: pytest.TempPathFactory) -> Played:
    known: dict[tuple[str, str], Conversation | Exception] = {}

    def talk(client: str, agent: str) -> Conversation:
        if (client, agent) not in known:
            try:
                known[client, agent] = play(client, agent, tmp_path_factory.mktemp(f"{client}-{agent}"))
            except Exception as error:  # noqa: BLE001 - it failed once for all tests, which fail with the same error
                known[client, agent] = error
        found = known[client, agent]
        if isinstance(found, Exception):
            raise found
        return found

    return talk


@pytest.fixture
def talk(request: pytest.FixtureRequest, played: Played) -> Conversation:
    """The conversation of the pair that the test names."""
    return played(*request.param)
