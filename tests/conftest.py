"""Hooks of the whole test run: which protocol rules and dialect rows the collected tests prove."""

import os
import signal
from collections.abc import Generator

import pytest
from hypothesis import settings
from tests.rule_coverage import RuleCoverage

# In CI the same examples every time, so that a red run is the change's own; everywhere else new ones.
settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")


# A run in the background of a script ignores Ctrl-C, one under `nohup` a hang-up, and every program that a test starts would, too.
for _name, _usual in (
    ("SIGINT", signal.default_int_handler),
    ("SIGQUIT", signal.SIG_DFL),
    ("SIGHUP", signal.SIG_DFL),
    ("SIGTERM", signal.SIG_DFL),
):
    _number = getattr(signal, _name, None)
    if _number is not None and signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _usual)


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(RuleCoverage(config), "rule-coverage")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """What a test printed or logged may be no Unicode at all; where the tests run in several processes it has to be, to get told."""
    report = yield
    report.sections = [
        (name, text.encode(errors="backslashreplace").decode()) for name, text in report.sections
    ]
    return report
