"""The project that the policy tests use. It is created once because decisions change no files."""

from pathlib import Path

import pytest
from tests.policy.project import Project, make_project


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return make_project(Path(tmp_path_factory.mktemp("policy")))
