"""Hooks of the whole test run: which protocol rules and dialect rows the collected tests prove."""

import pytest
from tests.rule_coverage import RuleCoverage


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(RuleCoverage(config), "rule-coverage")
