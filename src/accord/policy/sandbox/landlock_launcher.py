"""Restricts its own process with Landlock and a system call filter, then becomes the command.

Run as a script:

    python -I -S landlock_launcher.py FILE COMMAND...

The file contains words that end with NUL, in pairs: --read, --list, --write and --device with a path;
--filter with a file; --offline and --keep-override with yes or no; --env with NAME=VALUE. The script must
start fast, so it imports almost nothing and nothing of Accord. If a restriction fails, it does not run the
command and exits with code 125.
"""

import ctypes
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing typing would take as long as the rest of this file
    from typing import NoReturn

_CREATE_RULESET = 444
_ADD_RULE = 445
_RESTRICT_SELF = 446
_ASK_VERSION = 1
_PATH_BENEATH = 1

_EXECUTE = 1 << 0
_WRITE_FILE = 1 << 1
_READ_FILE = 1 << 2
_READ_DIR = 1 << 3
_MAKE_CHAR = 1 << 6
_MAKE_BLOCK = 1 << 11
_REFER = 1 << 13
_TRUNCATE = 1 << 14
_IOCTL_DEV = 1 << 15
_RIGHTS_OF_VERSION_1 = (1 << 13) - 1
_FILE_RIGHTS = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
_BIND_AND_CONNECT_TCP = 3
_SCOPE_SOCKETS_AND_SIGNALS = 3

_PR_SET_PDEATHSIG = 1
_PR_SET_SECCOMP = 22
_PR_SET_NO_NEW_PRIVS = 38
_PR_CAP_AMBIENT = 47
_FILTER = 2
_CLEAR_ALL = 4
_CAPSET = {"x86_64": 126, "aarch64": 91, "riscv64": 91}
_DAC_OVERRIDE = 1 << 1
_CAPABILITY_VERSION = 0x2008_0522

_SIGKILL = 9
_IGNORED_BY_PYTHON = (13, 25)  # SIGPIPE, SIGXFSZ

_CLOSE_RANGE = 436
_ALL = 0xFFFF_FFFF
_ON_EXEC = 4

_libc = ctypes.CDLL(None, use_errno=True)


class KernelRefusal(Exception):
    """A system call failed."""


def landlock_abi() -> int:
    """Return the Landlock version of this kernel; 0 if it has none."""
    return max(0, _libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(_ASK_VERSION)))


def _call(what: str, *arguments: object) -> int:
    result = _libc.syscall(*arguments)
    if result < 0:
        raise KernelRefusal(f"{what}: {os.strerror(ctypes.get_errno())}")
    return result


def _prctl(what: str, option: int, *arguments: object) -> None:
    words = [ctypes.c_ulong(0) if i >= len(arguments) else arguments[i] for i in range(4)]
    if _libc.prctl(option, *words) != 0:
        raise KernelRefusal(f"{what}: {os.strerror(ctypes.get_errno())}")


class LandlockRuleset:
    """Collects rights for files, then enforces them for this process and all it starts."""

    def __init__(self, version: int, *, offline: bool) -> None:
        self._handled = _RIGHTS_OF_VERSION_1
        for since, right in ((2, _REFER), (3, _TRUNCATE), (5, _IOCTL_DEV)):
            if version >= since:
                self._handled |= right
        words = [self._handled]
        if version >= 4:
            words.append(_BIND_AND_CONNECT_TCP if offline else 0)
        if version >= 6:
            words.append(_SCOPE_SOCKETS_AND_SIGNALS)
        attributes = (ctypes.c_uint64 * len(words))(*words)
        size = ctypes.c_size_t(ctypes.sizeof(attributes))
        self._fd = _call("no ruleset was made", _CREATE_RULESET, attributes, size, ctypes.c_uint32(0))

    def allow(self, path: str, rights: int) -> None:
        """Allow an operation on a file or on everything in a folder. A missing path is ignored."""
        try:
            target = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            return
        try:
            if os.fstat(target).st_mode & 0o170000 != 0o040000:
                rights &= _FILE_RIGHTS
            # struct landlock_path_beneath_attr, packed: u64 allowed_access; s32 parent_fd
            rule = (rights & self._handled).to_bytes(8, sys.byteorder) + target.to_bytes(4, sys.byteorder)
            arguments = (self._fd, _PATH_BENEATH, ctypes.c_char_p(rule), ctypes.c_uint32(0))
            _call(f"no rule was made for {path}", _ADD_RULE, *arguments)
        finally:
            os.close(target)

    def enforce(self) -> None:
        """Enforce the rules. This cannot be undone."""
        _call("the rules were not put in force", _RESTRICT_SELF, self._fd, ctypes.c_uint32(0))
        os.close(self._fd)


_RIGHTS = {
    "--read": _EXECUTE | _READ_FILE | _READ_DIR,
    "--list": _READ_DIR,
    "--write": (_RIGHTS_OF_VERSION_1 | _REFER | _TRUNCATE) & ~(_MAKE_CHAR | _MAKE_BLOCK),
    "--device": _READ_FILE | _WRITE_FILE | _IOCTL_DEV,
}


def main(file: str, command: list[str]) -> "NoReturn":
    """Run the command with the restrictions of the file; see the top of the file."""
    try:
        env = _restrict(file)
    except (KernelRefusal, OSError) as error:
        _fail(125, f"not run, because the sandbox could not be put in force: {error}")
    _execute(command, env)


def _execute(command: list[str], env: dict[str, str]) -> "NoReturn":
    """Execute the program. `os.execvpe` would import modules that may no longer be readable."""
    name = command[0]
    code, reason = 127, "not found"
    for folder in [""] if "/" in name else env.get("PATH", os.defpath).split(":"):
        try:
            os.execve(os.path.join(folder, name), command, env)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            code, reason = 126, error.strerror or "it cannot be run"
    _fail(code, f"{name}: {reason}")


def _restrict(file: str) -> dict[str, str]:
    with open(file, "rb") as opened:
        words = os.fsdecode(opened.read()).split("\0")
    pairs = list(zip(words[0::2], words[1::2], strict=False))
    options = dict(pairs)
    rules = LandlockRuleset(landlock_abi(), offline=options["--offline"] == "yes")
    for option, value in pairs:
        if option in _RIGHTS:
            rules.allow(value, _RIGHTS[option])
    for fd in (0, 1, 2):
        if os.isatty(fd):
            rules.allow(os.ttyname(fd), _RIGHTS["--device"])
    for signal in _IGNORED_BY_PYTHON:
        _libc.signal(signal, None)
    _call("open files were not closed", _CLOSE_RANGE, 3, ctypes.c_uint32(_ALL), _ON_EXEC)
    _prctl("the end of the parent would not be noticed", _PR_SET_PDEATHSIG, ctypes.c_ulong(_SIGKILL))
    _prctl("privileges could be gained", _PR_SET_NO_NEW_PRIVS, ctypes.c_ulong(1))
    _drop_capabilities(_DAC_OVERRIDE if options["--keep-override"] == "yes" else 0)
    with open(options["--filter"], "rb") as opened:
        program = opened.read()
    rules.enforce()
    if program:
        _install(program)
    return dict(value.split("=", 1) for option, value in pairs if option == "--env")


def _drop_capabilities(kept: int) -> None:
    number = _CAPSET.get(os.uname().machine)
    if number is None:
        return
    _prctl("inherited capabilities stay", _PR_CAP_AMBIENT, ctypes.c_ulong(_CLEAR_ALL))
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    # Two times effective, permitted, inheritable: the lower 32 bits of each, then the upper.
    sets = (ctypes.c_uint32 * 6)(kept, kept, 0, 0, 0, 0)
    _call("capabilities were not given up", number, header, sets)


def _install(program: bytes) -> None:
    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p)]

    filters = Program(len(program) // 8, program)
    _prctl("no system call filter", _PR_SET_SECCOMP, ctypes.c_ulong(_FILTER), ctypes.byref(filters))


def _fail(code: int, text: str) -> "NoReturn":
    sys.stderr.write(f"accord: {text}\n")
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
