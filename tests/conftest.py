"""Hooks of the whole test run: which protocol rules and dialect rows the collected tests prove."""

import os

import pytest
from hypothesis import settings
from tests.rule_coverage import RuleCoverage

# In CI the same examples every time, so that a red run is the change's own; everywhere else new ones.
settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(RuleCoverage(config), "rule-coverage")
