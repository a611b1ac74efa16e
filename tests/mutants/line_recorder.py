"""Records which test executes which line, in the test process and in the Python programs that tests start.

As a pytest plugin (`-p tests.mutants.line_recorder`) it names the running test in a file. Every Python
process of the copied environment imports this module at its start and records for the test in that file.
"""

import json
import sys
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

FOLDER = Path(sys.prefix).parent.parent / "recording"
_CURRENT = FOLDER / "current.txt"


def _started(context: str) -> Any:
    import coverage

    recorder = coverage.Coverage(
        data_file=str(FOLDER / "lines" / uuid.uuid4().hex),
        data_suffix=True,
        config_file=False,
        context=context or None,
        include=(FOLDER / "files.txt").read_text("utf-8").splitlines(),
        messages=False,
    )
    recorder.set_option("run:patch", ["_exit", "fork"])
    recorder.set_option(
        "run:disable_warnings", ["no-data-collected", "module-not-measured", "already-imported"]
    )
    recorder.start()
    return recorder


class LineRecorder:
    """The plugin of the test process."""

    def __init__(self) -> None:
        self._recorder = _started("")
        self._times: dict[str, float] = {}
        self._failed: set[str] = set()

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        _CURRENT.write_text(nodeid, "utf-8")
        self._recorder.switch_context(nodeid)

    def pytest_runtest_logreport(self, report: "pytest.TestReport") -> None:
        self._times[report.nodeid] = self._times.get(report.nodeid, 0.0) + report.duration
        if not report.passed:
            self._failed.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        self._recorder.stop()
        self._recorder.save()
        times = {test: round(time, 3) for test, time in self._times.items() if test not in self._failed}
        (FOLDER / "times.json").write_text(json.dumps(times), "utf-8")


def pytest_configure(config: "pytest.Config") -> None:
    config.pluginmanager.register(LineRecorder(), "line-recorder")


if __name__ == "accord_line_recorder" and _CURRENT.exists():
    import atexit

    try:
        _recorder = _started(_CURRENT.read_text("utf-8"))
        atexit.register(_recorder.save)
    except Exception:  # noqa: BLE001 - a program in a sandbox; what the test sees must not change
        pass
