"""Hooks of the whole test run: which protocol rules and dialect rows the collected tests prove."""

import os
import signal
from collections.abc import Generator

import pytest
from hypothesis import settings
from tests.rule_coverage import RuleCoverage

# CI uses the same examples every time, so that a failure comes from the change. Other runs use new ones.
settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")


# A background run ignores Ctrl-C and a run under `nohup` ignores a hang-up. Reset both, because every program
# that a test starts would inherit that.
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
    """Escape captured output that is not valid Unicode. Parallel test processes cannot send it otherwise."""
    report = yield
    report.sections = [
        (name, text.encode(errors="backslashreplace").decode()) for name, text in report.sections
    ]
    return report
