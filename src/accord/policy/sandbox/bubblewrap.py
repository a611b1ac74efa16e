"""The bubblewrap backend: namespaces that contain only what a command may see.

The file system is built from nothing: tool folders are read-only, the roots are writable, home and temporary
folder are private, secrets are covered. The command has its own process and IPC namespace and, with the
network off, its own network namespace. It cannot gain privileges, some system calls are filtered, and it ends
with `bwrap` or this program.
"""

import os
from collections.abc import Iterator
from typing import Final

from accord.policy.sandbox import seccomp
from accord.policy.sandbox.backend import ConfinedCommand, PrivateFolder, SandboxCommand, SandboxFact
from accord.policy.sandbox.command_environment import is_within, words
from accord.policy.sandbox.filesystem_view import FilesystemView

# `bwrap` must not end at a signal for the command, because everything inside would be killed without a
# cleanup. It ignores these signals, and the command gets their defaults back.
_SIGNALS: Final = "HUP INT QUIT TERM"
_IGNORE_SIGNALS: Final = f"trap '' {_SIGNALS}; "
# The options and the command's environment are in a file, so that they do not show in the process table. `env
# -i` removes variables that the starting program adds.
_START_SCRIPT: Final = 'options=$1; shift; exec /usr/bin/env -i "$@" 8<"$options" 9<"$0"'
# Root may write these, and through them leave any namespace.
_READ_ONLY_PROC: Final = words("sys sysrq-trigger irq bus fs acpi scsi mtrr driver latency_stats")
_TEMP_FOLDERS: Final[tuple[str, ...]] = ("/tmp", "/var/tmp")


class Bubblewrap:
    """Runs commands in bwrap. `sandbox.bubblewrap` creates it after a test."""

    name: str = "bubblewrap"

    def __init__(
        self, program: str, *, user_namespace: bool, can_disable_userns: bool, signal_resetter: str | None
    ) -> None:
        """`program` is the path of bwrap. Without a user namespace it runs as the real root.

        `can_disable_userns` says whether this bwrap can forbid further user namespaces. `signal_resetter` is
        the path of an `env` that resets signals, or None.
        """
        self._program = program
        self._user_namespace = user_namespace
        self._can_disable_userns = can_disable_userns
        self._signal_resetter = signal_resetter
        self._has_filter = seccomp.machine() is not None

    def in_user_namespace(self) -> "Bubblewrap":
        """Return a copy that uses a user namespace, for root without special rights."""
        return Bubblewrap(
            self._program,
            user_namespace=True,
            can_disable_userns=self._can_disable_userns,
            signal_resetter=self._signal_resetter,
        )

    def prepare(self, view: FilesystemView, private: PrivateFolder) -> None:
        """Create the mount points in the private folders."""
        for name in view.aliases:
            if os.path.realpath(name) != name:
                _link(os.path.join(private.home, os.path.relpath(name, view.home)), os.path.realpath(name))
        for path in _mounts(view, private):
            mount_point = _private_path(path, view, private)
            if mount_point is not None and not os.path.lexists(mount_point):
                os.makedirs(
                    mount_point if os.path.isdir(path) else os.path.dirname(mount_point), exist_ok=True
                )
                if not os.path.isdir(path):
                    os.close(os.open(mount_point, os.O_CREAT | os.O_EXCL, 0o600))

    def confine(self, command: SandboxCommand) -> ConfinedCommand:
        inner = list(command.argv)
        if self._signal_resetter is not None:
            if "=" in inner[0]:
                inner = ["/bin/sh", "-c", 'exec "$@"', "sh", *inner]  # `env` would read it as a variable
            inner = [self._signal_resetter, f"--default-signal={_SIGNALS.replace(' ', ',')}", "--", *inner]
        start = (_IGNORE_SIGNALS if self._signal_resetter is not None else "") + _START_SCRIPT
        filter_file = command.private.write_file(self._filter(command.network))
        options = command.private.write_words(self._options(command))
        argv = ["/bin/sh", "-c", start, filter_file, options, self._program, "--args", "8", "--", *inner]
        return ConfinedCommand(argv, {"PATH": os.defpath}, "/")

    def facts(self, view: FilesystemView, network: bool) -> tuple[SandboxFact, ...]:
        return (
            SandboxFact("writes", True, "only in the roots and in private folders"),
            _steering_fact(view),
            _secrets_fact(view),
            SandboxFact(
                "network", not network, "open, by choice" if network else "none, except its own loopback"
            ),
            self._sockets_fact(network),
            _temp_fact(view),
            SandboxFact("processes", True, "others are not seen, and all end with the command"),
            SandboxFact("privileges", True, "none can be gained"),
        )

    def home_and_temp(self, view: FilesystemView, private: PrivateFolder) -> tuple[str, str]:
        return view.home, "/tmp"

    def _sockets_fact(self, network: bool) -> SandboxFact:
        if network and not self._has_filter:
            return SandboxFact(
                "sockets", False, "with the network open, local sockets without a path can be reached"
            )
        return SandboxFact("sockets", True, "buses, key agents and container engines cannot be reached")

    def _filter(self, network: bool) -> bytes:
        if not self._has_filter:
            return b""
        if network:
            # Local sockets without a path, such as a display server's, belong to the network namespace.
            return seccomp.filter_program(unix=False)
        families = (seccomp.AF_UNIX, seccomp.AF_INET, seccomp.AF_INET6, seccomp.AF_NETLINK)
        return seccomp.filter_program(families=families)

    def _options(self, command: SandboxCommand) -> Iterator[str]:
        yield from (
            "--unshare-pid",
            "--unshare-ipc",
            "--unshare-uts",
            "--unshare-cgroup-try",
            "--die-with-parent",
        )
        # Without the filter, only a session without the terminal protects the terminal's input.
        yield from ("--seccomp", "9") if self._has_filter else ("--new-session",)
        yield from ("--cap-drop", "ALL")
        if not self._user_namespace:
            # Root works in folders of other users. It keeps this one capability, for mounted folders only.
            yield from ("--cap-add", "CAP_DAC_OVERRIDE")
        else:
            yield from (
                ("--unshare-user", "--disable-userns") if self._can_disable_userns else ("--unshare-user",)
            )
        if not command.network:
            yield "--unshare-net"
        yield from _file_system(command.view, command.private)
        yield from ("--chdir", command.cwd)
        for name, value in command.env.items():
            yield from ("--setenv", name, value)


def _steering_fact(view: FilesystemView) -> SandboxFact:
    text = "git hooks, git config, editor settings and AGENTS.md files are read-only"
    if not view.protection_complete:
        text = f"{text}, but the roots are too large or hold too many of them to protect all"
    return SandboxFact("steering", view.protection_complete, text)


def _secrets_fact(view: FilesystemView) -> SandboxFact:
    if not view.search_complete:
        text = "hidden, but the roots are too large for a complete search for .env and similar files"
        return SandboxFact("secrets", False, text)
    return SandboxFact(
        "secrets", True, "keys, logins, .env files and the home folder are hidden, except the tools in it"
    )


def _temp_fact(view: FilesystemView) -> SandboxFact:
    if view.writes("/tmp"):
        return SandboxFact("temp", False, "/tmp is a root, so it is shared")
    own_folders = "/tmp is" if view.home_is_shown else "/tmp and the home folder are"
    return SandboxFact("temp", True, f"{own_folders} private to this sandbox")


def _mounts(view: FilesystemView, private: PrivateFolder) -> dict[str, tuple[str, ...]]:
    """Return what is mounted where, outer mounts first."""
    mounts = {path: ("--ro-bind", path, path) for path in view.readable}
    mounts |= {path: ("--bind", private.temp, path) for path in _TEMP_FOLDERS}
    if not view.home_is_shown:
        mounts[view.home] = ("--bind", private.home, view.home)
    mounts |= {path: ("--bind", path, path) for path in (*view.writable, *view.pinned)}
    mounts |= {path: ("--ro-bind-try", path, path) for path in view.protected}
    for path in list(mounts):
        # The parents of a mount point in a private folder must not be moved, or it could be redirected.
        while (path := os.path.dirname(path)) not in mounts and (
            private_path := _private_path(path, view, private)
        ):
            mounts[path] = ("--bind", private_path, path)
    ordered = sorted(mounts, key=lambda path: path.count("/"))
    return {path: mounts[path] for path in ordered if not _is_already_shown(path, mounts)}


def _is_already_shown(path: str, mounts: dict[str, tuple[str, ...]]) -> bool:
    """Whether the surrounding mount already shows it read-only."""
    outer = os.path.dirname(path)
    while outer not in mounts and outer != "/":
        outer = os.path.dirname(outer)
    read_only_mount = ("--ro-bind", path, path)
    return mounts[path] == read_only_mount and mounts.get(outer) == ("--ro-bind", outer, outer)


def _private_path(path: str, view: FilesystemView, private: PrivateFolder) -> str | None:
    """Return the real path of something in the command's private home or temporary folder."""
    private_folders: dict[str, str] = dict.fromkeys(_TEMP_FOLDERS, private.temp)
    if not view.home_is_shown:
        private_folders[view.home] = private.home
    for mount_point, folder in sorted(
        private_folders.items(), reverse=True
    ):  # the inner folder first, if one lies in the other
        if path != mount_point and is_within(path, mount_point) and not view.writes(mount_point):
            return os.path.join(folder, os.path.relpath(path, mount_point))
    return None


def _link(path: str, target: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if not os.path.lexists(path):
        os.symlink(target, path)


def _file_system(view: FilesystemView, private: PrivateFolder) -> Iterator[str]:
    yield from ("--proc", "/proc", "--dev", "/dev", "--tmpfs", "/dev/shm")
    for name in _READ_ONLY_PROC:
        if os.path.exists(f"/proc/{name}"):
            yield from ("--ro-bind", f"/proc/{name}", f"/proc/{name}")
    with os.scandir("/") as entries:
        for entry in entries:
            if entry.is_symlink():
                yield from ("--symlink", os.readlink(entry.path), entry.path)
    covered = [path for path in view.hidden if os.path.isdir(path)]
    mounts = _mounts(view, private)
    mounts |= {path: ("--ro-bind", private.hidden_file, path) for path in view.hidden}
    mounts |= {path: ("--tmpfs", path) for path in covered}
    for path in sorted(mounts, key=lambda path: path.count("/")):
        yield from mounts[path]
    for path in (*covered, "/dev", "/"):
        yield from ("--remount-ro", path)  # last, because a root may be mounted inside
