"""Process trees on Windows: a job object ends every process in it when its last handle closes.

So the tree also ends when this process is killed. Written from the documentation of the system calls;
untested.
"""

import ctypes
import subprocess
import sys
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

_KILL_ON_JOB_CLOSE: Final = 0x2000
_EXTENDED_LIMITS: Final = 9
_ACCOUNTING: Final = 1
NEW_SESSION: Final = False
CREATION_FLAGS: Final = 0x200 | 0x08000000
"""Its own process group, so that Ctrl-C in our console does not reach it; and no window."""


class _BasicLimits(ctypes.Structure):
    _fields_ = [
        ("PerProcessUserTimeLimit", ctypes.c_int64),
        ("PerJobUserTimeLimit", ctypes.c_int64),
        ("LimitFlags", ctypes.c_uint32),
        ("MinimumWorkingSetSize", ctypes.c_size_t),
        ("MaximumWorkingSetSize", ctypes.c_size_t),
        ("ActiveProcessLimit", ctypes.c_uint32),
        ("Affinity", ctypes.c_size_t),
        ("PriorityClass", ctypes.c_uint32),
        ("SchedulingClass", ctypes.c_uint32),
    ]


class _ExtendedLimits(ctypes.Structure):
    _fields_ = [
        ("BasicLimitInformation", _BasicLimits),
        ("IoInfo", ctypes.c_uint64 * 6),
        ("ProcessMemoryLimit", ctypes.c_size_t),
        ("JobMemoryLimit", ctypes.c_size_t),
        ("PeakProcessMemoryUsed", ctypes.c_size_t),
        ("PeakJobMemoryUsed", ctypes.c_size_t),
    ]


class _Accounting(ctypes.Structure):
    _fields_ = [
        ("Times", ctypes.c_int64 * 4),
        ("TotalPageFaultCount", ctypes.c_uint32),
        ("TotalProcesses", ctypes.c_uint32),
        ("ActiveProcesses", ctypes.c_uint32),
        ("TotalTerminatedProcesses", ctypes.c_uint32),
    ]


def prepared_signals() -> AbstractContextManager[None]:
    """Do nothing: signals need no preparation on Windows."""
    return nullcontext()


if sys.platform == "win32":
    from ctypes import wintypes

    def _kernel() -> Any:
        kernel = ctypes.WinDLL("kernel32", use_last_error=True)
        kernel.CreateJobObjectW.restype = wintypes.HANDLE
        kernel.CreateJobObjectW.argtypes = [ctypes.c_void_p, wintypes.LPCWSTR]
        kernel.SetInformationJobObject.argtypes = [
            wintypes.HANDLE,
            ctypes.c_int,
            ctypes.c_void_p,
            wintypes.DWORD,
        ]
        kernel.QueryInformationJobObject.argtypes = [
            wintypes.HANDLE, ctypes.c_int, ctypes.c_void_p, wintypes.DWORD, ctypes.c_void_p,
        ]  # fmt: skip
        kernel.AssignProcessToJobObject.argtypes = [wintypes.HANDLE, wintypes.HANDLE]
        kernel.TerminateJobObject.argtypes = [wintypes.HANDLE, wintypes.UINT]
        kernel.CloseHandle.argtypes = [wintypes.HANDLE]
        return kernel

    class Job:
        """The processes that one child started; the counterpart of `ProcessGroup`."""

        def __init__(self, child: "subprocess.Popen[bytes]", mark: str) -> None:
            """`mark` is not needed: no process leaves its job."""
            self._kernel = _kernel()
            self._child = child
            self._handle: Any = self._kernel.CreateJobObjectW(None, None)
            limits = _ExtendedLimits()
            limits.BasicLimitInformation.LimitFlags = _KILL_ON_JOB_CLOSE
            self._kernel.SetInformationJobObject(
                self._handle, _EXTENDED_LIMITS, ctypes.byref(limits), ctypes.sizeof(limits)
            )
            self._kernel.AssignProcessToJobObject(self._handle, int(child._handle))  # pyright: ignore

        def scan(self) -> None:
            """Do nothing: the system tracks the members."""

        def terminate(self) -> None:
            """Kill the tree: Windows has no gentler way than closing stdin."""
            self.kill()

        def kill(self) -> None:
            """Kill all members."""
            self._kernel.TerminateJobObject(self._handle, 1)

        def interrupt(self) -> None:
            """Send Ctrl-Break, the nearest to Ctrl-C that reaches another process group."""
            import signal

            self._child.send_signal(signal.CTRL_BREAK_EVENT)

        def has_survivors(self) -> bool:
            """Return whether a process other than the child is left."""
            counts = _Accounting()
            self._kernel.QueryInformationJobObject(
                self._handle, _ACCOUNTING, ctypes.byref(counts), ctypes.sizeof(counts), None
            )
            return counts.ActiveProcesses > (1 if self._child.poll() is None else 0)

        def release(self) -> None:
            """Close the job, which ends all processes in it."""
            if self._handle:
                self._kernel.CloseHandle(self._handle)
                self._handle = None
