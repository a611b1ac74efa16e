from pathlib import Path

import pytest
from tests.frontend.agent_config.config_folders import ConfigFolders


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ConfigFolders:
    return ConfigFolders(tmp_path, monkeypatch)
