"""The user's model config, and errors that name file, key and reason."""

from pathlib import Path
from typing import Any

import pytest
from tests.coder.models.harness import KEY

from accord.coder.user_config import ConfigError, ModelFacts, ModelsConfig, load_models_config, models_config


def test_config_file_is_read_and_optional(tmp_path: Path) -> None:
    assert load_models_config(tmp_path) == ModelsConfig()
    (tmp_path / "config.toml").write_text(
        """
        model = "local:qwen3"
        effort = "high"
        rules = ["of another room"]

        [endpoints.local]
        base_url = "http://localhost:11434/v1"
        models = ["qwen3", "llama3:8b"]

        [models."local:qwen3"]
        context = 32768
        images = true
        input = 0
        output = 0

        [requests]
        attempts = 3
        """
    )
    config = load_models_config(tmp_path)
    assert (config.model, config.effort, config.requests.attempts) == ("local:qwen3", "high", 3)
    assert config.endpoints["local"].models == ("qwen3", "llama3:8b")
    assert config.models["local:qwen3"] == ModelFacts(context=32768, images=True, input=0, output=0)


def test_config_may_be_json_but_not_both(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model": "openai:gpt-5"}')
    assert load_models_config(tmp_path).model == "openai:gpt-5"
    (tmp_path / "config.toml").write_text("")
    with pytest.raises(ConfigError, match=r"config\.json: there is also config\.toml: keep one of them"):
        load_models_config(tmp_path)


@pytest.mark.parametrize(
    ("value", "line"),
    [
        ({"model": 1}, "c.toml: model: Expected `str | null`, got `int`"),
        (
            {"effort": "huge"},
            "c.toml: effort: 'huge' is not one of high, low, max, medium, minimal, off, xhigh",
        ),
        ({"requests": {"attempts": 0}}, "c.toml: requests.attempts: Expected `int` >= 1"),
        ({"requests": {"policy": 1}}, "c.toml: requests.policy: there is no such setting"),
        ({"endpoints": 3}, "c.toml: endpoints: Expected `object`, got `int`"),
        ({"endpoints": {"a": {"models": [1]}}}, "c.toml: endpoints.a.models[0]: Expected `str`, got `int`"),
        (
            {"endpoints": {"a": {"kind": "x"}}},
            "c.toml: endpoints.a.kind: 'x' is not one of anthropic, google, openai-chat, openai-responses",
        ),
        ({"endpoints": {"a": {"url": "x"}}}, "c.toml: endpoints.a.url: there is no such setting"),
        (
            {"endpoints": {"a": {"base_url": "x"}}},
            "c.toml: endpoints.a.base_url: not an http or https address",
        ),
        ({"models": {"openai:x": {"context": -1}}}, "c.toml: models.openai:x.context: Expected `int` >= 1"),
    ],
)
def test_invalid_setting_is_reported_with_file_key_and_reason(value: dict[str, Any], line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        models_config(value, "c.toml")
    assert str(caught.value) == line


def test_key_in_the_config_is_refused_and_not_repeated() -> None:
    with pytest.raises(ConfigError, match=r"endpoints\.a\.api_key: keys do not belong here") as caught:
        models_config({"endpoints": {"a": {"api_key": KEY}}}, "c.toml")
    assert KEY not in str(caught.value)


def test_broken_config_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("model = [")
    with pytest.raises(ConfigError, match=r"config\.toml: not valid TOML"):
        load_models_config(tmp_path)
    (tmp_path / "config.toml").rename(tmp_path / "config.json")
    (tmp_path / "config.json").write_text("[1]")
    with pytest.raises(ConfigError, match="not an object"):
        load_models_config(tmp_path)


@pytest.mark.parametrize("kind", ["folder", "broken link"])
def test_config_that_is_no_file_is_not_ignored(tmp_path: Path, kind: str) -> None:
    """Otherwise the user's rules would be lost without a word."""
    config = tmp_path / "config.toml"
    config.mkdir() if kind == "folder" else config.symlink_to(tmp_path / "missing.toml")
    with pytest.raises(ConfigError, match=r"config\.toml: cannot be read"):
        load_models_config(tmp_path)
