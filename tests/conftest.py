"""Hooks of the whole test run: which protocol rules and dialect rows the collected tests prove."""

import gc
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, settings
from tests import warm_start
from tests.repetitions import repetitions
from tests.rule_coverage import RuleCoverage

# No example has a time limit: a slow one is no failure on a busy machine. CI uses the same examples every
# time, so that a failure comes from the change. Other runs use new ones.
settings.register_profile(
    "patient", deadline=None, max_examples=repetitions(100), suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("ci", settings.get_profile("patient"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "patient")

# An empty home folder: settings of the user, such as git's list of ignored files, must not change a result.
_HOME = tempfile.mkdtemp(prefix="accord-tests-home-")
for _name in [*os.environ]:
    if _name.startswith(("GIT_", "XDG_CONFIG", "XDG_DATA", "XDG_CACHE", "XDG_STATE")):
        del os.environ[_name]
for _name in ("ACCORD_HOME", "ACCORD_TOKEN"):
    os.environ.pop(_name, None)
os.environ["HOME"] = _HOME

# The model of all tests that name no other one: a script, which follows commands only if it is named.
os.environ["ACCORD_MODEL"] = "rehearsal"

# Keep compiled files even where the user turned them off. Otherwise this run and each of the thousands of
# programs that it starts would compile all modules again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Only the last picture of a scroll or a fade matters to a test; each one takes as long as a small test.
os.environ["TEXTUAL_ANIMATIONS"] = "none"
os.environ["TEXTUAL_FPS"] = "6"

# To collect tests creates millions of objects and no garbage. `pytest_collection_finish` enables it again.
gc.disable()

# Most of the time of the tests was Python importing the programs that they start.
warm_start.install()

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
    config.add_cleanup(lambda: shutil.rmtree(_HOME, ignore_errors=True))


@pytest.hookimpl(optionalhook=True, wrapper=True)
def pytest_xdist_auto_num_workers() -> Generator[None, int, int]:
    """Half as many test processes again as processors, at least two more: tests wait for programs."""
    processors = yield
    if os.environ.get("PYTEST_XDIST_AUTO_NUM_WORKERS"):
        return processors
    return processors + max(2, processors // 2)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start the tests with the longest time limits first, so that the run does not end with one of them."""
    items.sort(key=_extra_time, reverse=True)


def pytest_collection_finish() -> None:
    """Let the garbage collector search only what the tests create."""
    gc.freeze()
    gc.enable()


def _extra_time(item: pytest.Item) -> float:
    mark = item.get_closest_marker("timeout")
    return max(0.0, mark.args[0] - float(item.config.getini("timeout"))) if mark is not None else 0.0


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Escape captured output that is not valid Unicode. Parallel test processes cannot send it otherwise."""
    report = yield
    report.sections = [
        (name, text.encode(errors="backslashreplace").decode()) for name, text in report.sections
    ]
    return report
