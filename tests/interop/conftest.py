"""Runs each conversation of the interop tests once per test run; all tests check the same record."""

from collections.abc import Callable

import pytest
from tests.interop.conversation import Conversation, run_conversation

RunConversation = Callable[[str, str], Conversation]


@pytest.fixture(scope="session")
def run_once(tmp_path_factory: pytest.TempPathFactory) -> RunConversation:
    finished: dict[tuple[str, str], Conversation | Exception] = {}

    def run(client: str, agent: str) -> Conversation:
        if (client, agent) not in finished:
            try:
                finished[client, agent] = run_conversation(
                    client, agent, tmp_path_factory.mktemp(f"{client}-{agent}")
                )
            except Exception as error:  # noqa: BLE001 - every test of this pair fails with the same error
                finished[client, agent] = error
        outcome = finished[client, agent]
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    return run


@pytest.fixture
def conversation(request: pytest.FixtureRequest, run_once: RunConversation) -> Conversation:
    """The conversation of the pair that the test names."""
    return run_once(*request.param)
