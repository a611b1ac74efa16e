"""The seccomp filter of the bubblewrap and Landlock sandboxes, as BPF bytes.

Mounts and Landlock restrict files. The filter refuses what they do not cover: writing to a terminal's input,
the kernel's key rings, performance events, BPF programs and, if sockets are restricted, the forbidden kinds
of sockets and io_uring. All other calls stay allowed.
"""

import os
import struct
import sys
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from accord.errors import UsageError

AF_UNIX: Final = 1
AF_INET: Final = 2
AF_INET6: Final = 10
AF_NETLINK: Final = 16

_SOCK_DGRAM: Final = 2
_SOCK_TYPE_MASK: Final = 0xF
_TIOCSTI: Final = 0x5412
_TIOCLINUX: Final = 0x541C
_EPERM: Final = 1
_ENOSYS: Final = 38

_ALLOW: Final = 0x7FFF_0000
_KILL: Final = 0x8000_0000
_ERRNO: Final = 0x0005_0000

# struct seccomp_data: int nr; u32 arch; u64 instruction_pointer; u64 args[6]
_NUMBER: Final = 0
_ARCHITECTURE: Final = 4
_ARGUMENTS: Final = 16

_LOAD: Final = 0x20  # ld [k]
_AND: Final = 0x54  # and #k
_IF_EQUAL: Final = 0x15
_IF_AT_LEAST: Final = 0x35
_RETURN: Final = 0x06
_X32: Final = 0x4000_0000  # the bit of x32 calls, which x86_64 kernels accept too


@dataclass(frozen=True, slots=True)
class _Architecture:
    audit_arch: int
    ioctl: int
    socket: int
    socketpair: int
    add_key: int
    perf_event_open: int
    bpf: int
    io_uring_setup: int = 425


_ARCHITECTURES: Final = {
    "x86_64": _Architecture(0xC000_003E, 16, 41, 53, 248, 298, 321),
    "aarch64": _Architecture(0xC000_00B7, 29, 198, 199, 217, 241, 280),
    "riscv64": _Architecture(0xC000_00F3, 29, 198, 199, 217, 241, 280),
}

Instruction = tuple[int, int, int, int]


def machine() -> str | None:
    """Return the name of this machine's instruction set, if a filter exists for it."""
    name = os.uname().machine if sys.platform == "linux" else ""
    supported = sys.byteorder == "little" and struct.calcsize("P") == 8
    return name if name in _ARCHITECTURES and supported else None


def filter_program(
    *, families: Collection[int] | None = None, unix: bool = True, machine_name: str | None = None
) -> bytes:
    """Return the filter in the kernel's format.

    `families` are the only socket families that may be created; None allows all. With
    `unix=False`, a command cannot create Unix sockets, except by `socketpair` (not datagram). `machine_name`
    is by default this machine.
    """
    machine_name = machine_name or machine()
    if machine_name is None:
        raise UsageError("no system call filter is known for this machine")
    architecture = _ARCHITECTURES[machine_name]
    program: list[Instruction] = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_IF_EQUAL, 1, 0, architecture.audit_arch),
        (_RETURN, 0, 0, _KILL),  # another instruction set has other call numbers
        (_LOAD, 0, 0, _NUMBER),
    ]
    if machine_name == "x86_64":
        program += [(_IF_AT_LEAST, 0, 1, _X32), (_RETURN, 0, 0, _ERRNO | _ENOSYS)]
    # The kernel reads only the lower half of an ioctl's number, so the filter does too.
    program += _refuse(architecture.ioctl, 1, [_TIOCSTI, _TIOCLINUX])
    # request_key and keyctl follow add_key.
    add_key = architecture.add_key
    for number in (add_key, add_key + 1, add_key + 2, architecture.perf_event_open, architecture.bpf):
        program += _refuse(number)
    if families is not None or not unix:
        # io_uring creates sockets without the filtered call.
        program += _refuse(architecture.io_uring_setup, error=_ENOSYS)
    if families is not None:
        program += _refuse_others(
            architecture.socket, 0, sorted({*families} - (set() if unix else {AF_UNIX}))
        )
    elif not unix:
        program += _refuse(architecture.socket, 0, [AF_UNIX])
    if not unix:
        # A pair of datagram sockets can be connected again, to any path.
        program += _refuse(architecture.socketpair, 1, [_SOCK_DGRAM], mask=_SOCK_TYPE_MASK)
    program.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("<HBBI", *instruction) for instruction in program)


def _refuse(
    number: int,
    argument: int = 0,
    values: list[int] | None = None,
    *,
    mask: int | None = None,
    error: int = _EPERM,
) -> list[Instruction]:
    """Refuse a call: always, or if an argument has one of the values."""
    refusal = (_RETURN, 0, 0, _ERRNO | error)
    if values is None:
        return [(_IF_EQUAL, 0, 1, number), refusal]
    check: list[Instruction] = [(_LOAD, 0, 0, _ARGUMENTS + 8 * argument)]
    if mask is not None:
        check.append((_AND, 0, 0, mask))
    for remaining, value in zip(range(len(values) - 1, -1, -1), values, strict=True):
        # Jump to the refusal over the remaining comparisons. The last one jumps over the refusal.
        check.append((_IF_EQUAL, remaining, 0 if remaining else 1, value))
    check.append(refusal)
    return _for_call(number, check)


def _refuse_others(number: int, argument: int, values: list[int]) -> list[Instruction]:
    """Refuse a call unless an argument has one of the values."""
    check: list[Instruction] = [(_LOAD, 0, 0, _ARGUMENTS + 8 * argument)]
    for remaining, value in zip(range(len(values) - 1, -1, -1), values, strict=True):
        check.append((_IF_EQUAL, remaining + 1, 0, value))
    check.append((_RETURN, 0, 0, _ERRNO | _EPERM))
    return _for_call(number, check)


def _for_call(number: int, check: list[Instruction]) -> list[Instruction]:
    return [(_IF_EQUAL, 0, len(check), number), *check, (_LOAD, 0, 0, _NUMBER)]
