"""What a command sees of the file system, and the secrets hidden from it.

Imported on first use.
"""

import os
import re
import stat
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from glob import iglob
from pathlib import Path
from typing import Final

from accord.errors import UsageError
from accord.paths import HOME_VARIABLE, config_dir, data_dir
from accord.policy.git_repository import looks_bare, repository_of, steering_in_git
from accord.policy.sandbox.command_environment import (
    GIT_CONFIGS,
    SYSTEM_FOLDERS,
    holds_credential,
    is_within,
    name_service_files,
    tool_folders,
    words,
)
from accord.policy.secret_files import is_steering_name

_SYSTEM_PATHS: Final = ("/usr", "/etc", "/proc", "/sys", "/dev", "/run", "/bin", "/sbin", "/lib", "/boot")


@dataclass(frozen=True, slots=True)
class FilesystemView:
    """What a command can reach. All paths are real paths; everything else does not exist for the command.

    A view is computed before the first command and can only shrink: a command that replaces a folder of the
    roots with a link must not change what the next command sees.
    """

    home: str
    """The user's home folder."""
    home_is_shown: bool = True
    """Whether the real one is visible, because a root or readable folder contains it.

    Otherwise it is a private one.
    """
    writable: tuple[str, ...] = ()
    """None lies inside another."""
    readable: tuple[str, ...] = ()
    """None lies inside a writable folder."""
    requested: tuple[str, ...] = ()
    """The readable paths that were requested by name."""
    aliases: tuple[str, ...] = ()
    """Paths in the home folder that lead to the user's tools. Their targets are readable."""
    protected: tuple[str, ...] = ()
    """Must stay as they are inside a writable folder: they steer what git, editors and agents do outside."""
    protection_complete: bool = True
    """Whether all such files in the roots are protected."""
    pinned: tuple[str, ...] = ()
    """Writable, but not movable, because they contain something protected."""
    hidden: tuple[str, ...] = ()
    search_complete: bool = True
    """Whether the search for secrets in the roots was complete."""

    def without_secrets(self, secrets: Iterable[str], *, search_complete: bool) -> "FilesystemView":
        """Return this view without the secrets that it would show.

        Raises UsageError if a writable folder is a secret.
        """
        visible = (*self.writable, *self.readable)
        real = {os.path.realpath(path) for path in secrets if os.path.lexists(path)}
        within = (path for path in real if any(is_within(path, folder) for folder in visible))
        hidden = tuple(_topmost(path for path in within if path not in self.requested))
        for path in hidden:
            if path in self.writable:
                raise UsageError(
                    f"a sandbox cannot open {path} for writing: secrets are kept there; choose another folder"
                )
        return replace(self, hidden=hidden, search_complete=search_complete)

    def hidden_in_writable(self) -> tuple[str, ...]:
        """Return the secrets that lie in a writable folder."""
        return tuple(path for path in self.hidden if self.writes(path))

    def writes(self, path: str) -> bool:
        """Whether a real path lies in a writable folder."""
        return any(is_within(path, folder) for folder in self.writable)


def initial_view(
    writable: Iterable[str], readable: Iterable[str], home: str, search_path: str
) -> FilesystemView:
    """Return the view before secrets are hidden. `search_path` is the PATH of the commands.

    Raises UsageError for folders that cannot be confined.
    """
    home = os.path.realpath(home)
    roots = tuple(_topmost(_existing(writable)))
    _check_writable(roots)
    requested = tuple(_existing(readable))
    if "/" in requested:
        raise UsageError(
            "a sandbox cannot open / for reading: that would be everything; name the folders you need"
        )
    home_is_shown = any(is_within(home, folder) for folder in (*roots, *requested))

    def is_outside(path: str) -> bool:
        return not any(is_within(path, root) for root in roots)

    # A command may have created links in a root, so that names in a root are not followed.
    tools = [
        tool
        for tool in tool_folders(home, search_path)
        if is_outside(tool) and not is_within(home, os.path.realpath(tool))
    ]
    aliases = [path for path in tools if is_within(path, home)]
    aliases += [config for name in GIT_CONFIGS if _holds_no_login(config := os.path.join(home, name))]
    shown = _existing((*SYSTEM_FOLDERS, *name_service_files(), *tools, *aliases, *requested))
    protected, protection_complete = steering_files(roots)
    return FilesystemView(
        home=home,
        home_is_shown=home_is_shown,
        writable=roots,
        readable=tuple(path for path in shown if is_outside(path)),
        requested=requested,
        aliases=() if home_is_shown else tuple(aliases),
        protected=protected,
        protection_complete=protection_complete,
        pinned=tuple(_parents_in(protected, roots)),
    )


def _check_writable(writable: tuple[str, ...]) -> None:
    for root in writable:
        if not os.path.isdir(root):
            raise UsageError(f"a sandbox cannot open {root} for writing: it is not a folder")
        if is_system_path(root):
            raise UsageError(
                f"a sandbox cannot open {root} for writing: it is part of the system; "
                "choose one of your own folders"
            )


def is_system_path(path: str) -> bool:
    """Whether a real path is part of the system and holds no user files."""
    return path == "/" or any(is_within(path, system) for system in _SYSTEM_PATHS)


def _parents_in(paths: Iterable[str], roots: Sequence[str]) -> Iterator[str]:
    """Yield the folders between the roots and these paths. A folder that is moved takes its content along."""
    seen = set(roots)
    for path in paths:
        while (path := os.path.dirname(path)) not in seen and any(is_within(path, root) for root in roots):
            seen.add(path)
            yield path


def _holds_no_login(config: str) -> bool:
    """Whether a git configuration can be read and holds no login."""
    try:
        with open(config, encoding="utf-8", errors="replace") as file:
            text = file.read(1 << 20)
    except OSError:
        return False
    return not holds_credential(text) and "extraheader" not in text.lower()


def _existing(paths: Iterable[str]) -> Iterator[str]:
    return iter(dict.fromkeys(os.path.realpath(path) for path in paths if os.path.exists(path)))


def _topmost(paths: Iterable[str]) -> Iterator[str]:
    """Yield the paths that do not lie below another one."""
    last = None
    for path in sorted(paths, key=lambda path: path.split("/")):
        if last is None or not is_within(path, last):
            last = path
            yield path


# Secrets: known places of keys and logins, and files in the roots that are found by name.

_SECRETS_IN_HOME: Final = words(
    ".ssh .gnupg .aws .azure .config/gcloud .config/gh .config/hub .config/glab-cli .config/op "
    ".config/sops .config/rclone "
    ".config/doctl .config/hcloud .config/containers/auth.json .config/git/credentials .config/google-chrome "
    ".config/chromium .config/BraveSoftware .config/Code .config/Cursor .config/zed "
    ".config/github-copilot .config/configstore "
    ".mozilla .thunderbird .netrc _netrc .git-credentials .pypirc .npmrc .yarnrc.yml .gem/credentials "
    ".cargo/credentials "
    ".cargo/credentials.toml .m2/settings.xml .m2/settings-security.xml .gradle/gradle.properties .docker "
    ".kube .helm "
    ".terraform.d .terraformrc .vault-token .password-store .local/share/keyrings .local/share/kwalletd "
    ".pki .claude "
    ".claude.json .codex .gemini .config/opencode .local/share/opencode .config/anthropic .config/openai "
    ".huggingface "
    ".cache/huggingface/token .pgpass .my.cnf .mongorc.js .s3cfg .boto .fly .heroku .bash_history "
    ".zsh_history "
    ".python_history .node_repl_history .psql_history .mysql_history .Xauthority .ICEauthority .wine"
)
_SYSTEM_SECRETS: Final = words(
    # sockets that lead to keys or to other users' rights, and files for the system only
    "/run/dbus /run/user /run/docker.sock /run/podman /run/containerd /run/systemd /run/secrets "
    "/var/run/secrets "
    "/tmp/.X11-unix /tmp/.ICE-unix /tmp/ssh-* /tmp/tmux-* /tmp/dbus-* /tmp/gpg-* /tmp/vscode-* /tmp/krb5cc_* "
    "/etc/shadow* /etc/gshadow* /etc/sudoers* /etc/ssh/ssh_host_*_key /etc/ssl/private /etc/krb5.keytab "
    "/etc/wireguard /etc/kubernetes /etc/rancher /etc/letsencrypt /etc/NetworkManager/system-connections"
)

NAMES_IN_ROOTS: Final = re.compile(
    r"""
    \.env | \.env\.(?!(?:example|sample|template|dist|defaults?|schema|test)$).+ | \.envrc
    | \.netrc | _netrc | \.git-credentials | \.pypirc | \.pgpass | \.my\.cnf | \.dockercfg | \.s3cfg | \.boto
    | \.vault-token | \.vault[-_]pass(?:word)? | id_(?:rsa|dsa|ecdsa|ed25519)(?:_sk)?
    | .+\.(?:p12|pfx|ppk|kdbx)
    | credentials\.json | service[-_]account.*\.json | client_secret.*\.json | master\.key
    """,
    re.VERBOSE | re.IGNORECASE,
)
"""Files with these names are hidden in the roots.

The list is shorter than the one of `accord.policy.secret_files`: files that tests and tools commonly need,
such as certificates, stay visible.
"""

_SKIPPED_FOLDERS: Final = words(
    ".git node_modules .venv venv .tox .nox __pycache__ .mypy_cache .ruff_cache .pytest_cache .cache "
    "target .gradle "
    ".next .nuxt .terraform bower_components site-packages"
)
_MAX_ENTRIES: Final = 50_000
_MAX_HIDDEN: Final = 200  # each adds a mount to every command
_MAX_PROTECTED: Final = 200
_MAX_WATCHED: Final = 5000


@dataclass(frozen=True, slots=True)
class SecretScan:
    """The secrets found in the roots. `complete` is False if the scan stopped at a limit."""

    secrets: tuple[str, ...] = ()
    complete: bool = True


def known_secrets(home: str) -> Iterator[str]:
    """Yield the existing places of keys and logins on this machine, and Accord's own folders."""
    candidates = [os.path.join(home, relative) for relative in _SECRETS_IN_HOME]
    candidates += accord_folders()
    for pattern in _SYSTEM_SECRETS:
        candidates += iglob(pattern) if "*" in pattern else (pattern,)
    for path in candidates:
        if os.path.lexists(path):
            yield os.path.realpath(path)
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        # Root may read files that other users may not. Its sandboxed commands may not.
        yield from _unreadable_by_others("/etc", depth=3)


def accord_folders() -> tuple[str, ...]:
    """Return where Accord keeps credentials, settings and logs, with the defaults if they were moved."""
    from platformdirs import PlatformDirs

    dirs = PlatformDirs("accord", appauthor=False)
    standard = (dirs.user_config_dir, dirs.user_data_dir, dirs.user_state_dir, dirs.user_cache_dir)
    moved = (config_dir().parent,) if os.environ.get(HOME_VARIABLE) else (config_dir(), data_dir())
    return (*map(str, moved), *standard)


def steering_files(roots: Sequence[str], *, watched: bool = False) -> tuple[tuple[str, ...], bool]:
    """Return the files and folders in the roots that steer other programs, and whether these are all.

    Paths are real; those that links lead to are included. Where there are too many, those near the top are
    returned, because each adds a mount. `watched` returns more of them, and the links themselves.
    """
    found: dict[str, None] = {}
    limit = _MAX_WATCHED if watched else _MAX_PROTECTED
    complete = True
    for number, entry in enumerate(_walk(roots, _skips_steering)):
        if number >= _MAX_ENTRIES or len(found) > limit:
            complete = False
            break
        if entry.name == "HEAD" and looks_bare(folder := os.path.dirname(entry.path)):
            found |= dict.fromkeys(steering_in_git(folder, watched=watched))
        is_link = entry.is_symlink()
        kinds = (False, True) if is_link or entry.name == ".git" else (entry.is_dir(),)
        if not any(is_steering_name(entry.name, folder=kind) for kind in kinds):
            continue
        if is_link and watched:
            found[entry.path] = None
        if entry.name == ".git":
            found |= dict.fromkeys(_steering_of_git(entry, watched=watched))
        elif os.path.exists(entry.path):
            found[os.path.realpath(entry.path)] = None
    inside = [path for path in found if any(is_within(path, root) and path != root for root in roots)]
    return tuple(_topmost(inside[:limit])), complete and len(inside) <= limit


def _skips_steering(name: str) -> bool:
    return name in _SKIPPED_FOLDERS or is_steering_name(name, folder=True)


def _steering_of_git(entry: "os.DirEntry[str]", *, watched: bool) -> Iterator[str]:
    real = os.path.realpath(entry.path)
    if os.path.isdir(real):
        yield from steering_in_git(real, watched=watched)
    elif os.path.exists(real):
        yield real  # it leads git to the repository
        repository = repository_of(Path(os.path.dirname(entry.path)))
        for folder in {repository.git_dir, repository.common_dir} if repository else ():
            yield from steering_in_git(os.path.realpath(folder), watched=watched)


def _walk(roots: Sequence[str], skips: Callable[[str], bool]) -> "Iterator[os.DirEntry[str]]":
    """Yield the entries below the roots, breadth first, so that a limit cuts off deep folders.

    `skips` says of which folders the content is left out.
    """
    pending = deque(roots)
    while pending:
        for entry in _entries(pending.popleft()):
            yield entry
            if entry.is_dir(follow_symlinks=False) and not skips(entry.name):
                pending.append(entry.path)


def scan_roots(roots: Sequence[str], names: re.Pattern[str] = NAMES_IN_ROOTS) -> SecretScan:
    """Find secrets in the roots by name. Reads only folders; may take long in large ones."""
    secrets: dict[str, None] = {}
    for number, entry in enumerate(_walk(roots, _SKIPPED_FOLDERS.__contains__)):
        if number >= _MAX_ENTRIES or len(secrets) > _MAX_HIDDEN:
            return SecretScan(tuple(secrets)[:_MAX_HIDDEN], complete=False)
        if (
            names.fullmatch(entry.name)
            and not entry.is_dir(follow_symlinks=False)
            and os.path.isfile(entry.path)
        ):
            secrets[os.path.realpath(entry.path)] = None
    return SecretScan(tuple(secrets)[:_MAX_HIDDEN], complete=len(secrets) <= _MAX_HIDDEN)


def _entries(folder: str) -> "list[os.DirEntry[str]]":
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []  # the command cannot list it either


def _unreadable_by_others(folder: str, depth: int) -> Iterator[str]:
    for entry in _entries(folder):
        try:
            mode = entry.stat(follow_symlinks=False).st_mode
        except OSError:
            continue
        if stat.S_ISDIR(mode):
            if not mode & stat.S_IXOTH:
                yield entry.path
            elif depth > 1:
                yield from _unreadable_by_others(entry.path, depth - 1)
        elif stat.S_ISREG(mode) and not mode & stat.S_IROTH:
            yield entry.path
