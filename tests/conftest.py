"""Hooks of the whole test run: which protocol rules and dialect rows the collected tests prove."""

import os
import signal

import pytest
from hypothesis import settings
from tests.rule_coverage import RuleCoverage

# In CI the same examples every time, so that a red run is the change's own; everywhere else new ones.
settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")


# A run that was started with `nohup` ignores SIGHUP, and every program that a test starts would, too.
if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(RuleCoverage(config), "rule-coverage")
