"""What a command sees of the file system, and the secrets hidden from it.

Imported on first use.
"""

import os
import re
import stat
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from glob import iglob
from typing import Final

from accord.errors import UsageError
from accord.paths import HOME_VARIABLE, config_dir, data_dir
from accord.policy.sandbox.command_environment import (
    GIT_CONFIGS,
    SYSTEM_FOLDERS,
    holds_credential,
    is_within,
    name_service_files,
    tool_folders,
    words,
)

# MERGED policy.sandbox.view: What a sandboxed command sees of the file system, in terms that every backend understands.
#
# A view is worked out before the first command runs and then only ever narrowed: a command that could swap a folder of
# the roots for a link must not decide what the next one sees. Paths are real (links resolved); what is hidden lies inside
# something that would otherwise be seen.

_PROTECTED_IN_GIT: Final = ("hooks", "config")
_PROTECTED_IN_ROOT: Final = (".accord",)
_SYSTEM_PATHS: Final = ("/usr", "/etc", "/proc", "/sys", "/dev", "/run", "/bin", "/sbin", "/lib", "/boot")


@dataclass(frozen=True, slots=True)
class FilesystemView:
    """The reach of a command. What is in none of these is not there."""

    home: str
    """The user's home folder."""
    home_is_shown: bool = True
    """Whether the real one is seen, because a root or a readable folder holds it; else a private one stands in its place."""
    writable: tuple[str, ...] = ()
    """None of them inside another."""
    readable: tuple[str, ...] = ()
    """None of them inside something writable."""
    requested: tuple[str, ...] = ()
    """Those of them that were asked for by name."""
    aliases: tuple[str, ...] = ()
    """Names in the home folder under which the user's tools are known; where they lead is readable."""
    protected: tuple[str, ...] = ()
    """Read-only, though inside something writable: what makes git or Accord run programs later, outside."""
    pinned: tuple[str, ...] = ()
    """Writable, but not to be moved away, because something guarded is in them."""
    hidden: tuple[str, ...] = ()
    search_complete: bool = True
    """Whether the roots were searched for secrets to the end."""

    def without_secrets(self, secrets: Iterable[str], *, search_complete: bool) -> "FilesystemView":
        """This view without the secrets; those that it does not show anyway are left out. UsageError if nothing is left."""
        seen = (*self.writable, *self.readable)
        real = {os.path.realpath(path) for path in secrets if os.path.lexists(path)}
        within = (path for path in real if any(is_within(path, folder) for folder in seen))
        hidden = tuple(_topmost(path for path in within if path not in self.requested))
        for path in hidden:
            if path in self.writable:
                raise UsageError(
                    f"a sandbox cannot open {path} for writing: secrets are kept there; choose another folder"
                )
        return replace(self, hidden=hidden, search_complete=search_complete)

    def hidden_in_writable(self) -> tuple[str, ...]:
        """Those secrets that lie in a folder the command may write to."""
        return tuple(path for path in self.hidden if self.writes(path))

    def writes(self, path: str) -> bool:
        """Whether a real path lies in a folder that commands may write to."""
        return any(is_within(path, folder) for folder in self.writable)


def initial_view(
    writable: Iterable[str], readable: Iterable[str], home: str, search_path: str
) -> FilesystemView:
    """The view of commands whose PATH is `path`, with nothing hidden yet; raises UsageError for what cannot be confined."""
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

    # What a root holds may have been put there to be followed, so a name in a root leads nowhere.
    tools = [
        tool
        for tool in tool_folders(home, search_path)
        if is_outside(tool) and not is_within(home, os.path.realpath(tool))
    ]
    aliases = [path for path in tools if is_within(path, home)]
    aliases += [config for name in GIT_CONFIGS if _holds_no_login(config := os.path.join(home, name))]
    shown = _existing((*SYSTEM_FOLDERS, *name_service_files(), *tools, *aliases, *requested))
    repositories = [git for root in roots if _is_folder(git := os.path.join(root, ".git"))]
    protected = [os.path.join(git, name) for git in repositories for name in _PROTECTED_IN_GIT]
    protected += [os.path.join(root, name) for root in roots for name in _PROTECTED_IN_ROOT]
    return FilesystemView(
        home=home,
        home_is_shown=home_is_shown,
        writable=roots,
        readable=tuple(path for path in shown if is_outside(path)),
        requested=requested,
        aliases=() if home_is_shown else tuple(aliases),
        protected=tuple(path for path in protected if os.path.exists(path) and not os.path.islink(path)),
        pinned=tuple(repositories),
    )


def _check_writable(writable: tuple[str, ...]) -> None:
    for root in writable:
        if not os.path.isdir(root):
            raise UsageError(f"a sandbox cannot open {root} for writing: it is not a folder")
        if is_system_path(root):
            raise UsageError(
                f"a sandbox cannot open {root} for writing: it is part of the system; choose a folder of yours"
            )


def is_system_path(path: str) -> bool:
    """Whether a real path is part of the system, where nobody's work lies."""
    return path == "/" or any(is_within(path, system) for system in _SYSTEM_PATHS)


def _is_folder(path: str) -> bool:
    return os.path.isdir(path) and not os.path.islink(path)


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
    """Those that do not lie below another of them."""
    last = None
    for path in sorted(paths, key=lambda path: path.split("/")):
        if last is None or not is_within(path, last):
            last = path
            yield path


# MERGED policy.sandbox.secrets: What no sandboxed command may read: where keys and logins are kept, and the files inside the roots that hold them.
#
# Files inside the roots are found by name in a walk that is bounded; whether it saw everything is part of the answer.

_IN_HOME: Final = words(
    ".ssh .gnupg .aws .azure .config/gcloud .config/gh .config/hub .config/glab-cli .config/op .config/sops .config/rclone "
    ".config/doctl .config/hcloud .config/containers/auth.json .config/git/credentials .config/google-chrome "
    ".config/chromium .config/BraveSoftware .config/Code .config/Cursor .config/zed .config/github-copilot .config/configstore "
    ".mozilla .thunderbird .netrc _netrc .git-credentials .pypirc .npmrc .yarnrc.yml .gem/credentials .cargo/credentials "
    ".cargo/credentials.toml .m2/settings.xml .m2/settings-security.xml .gradle/gradle.properties .docker .kube .helm "
    ".terraform.d .terraformrc .vault-token .password-store .local/share/keyrings .local/share/kwalletd .pki .claude "
    ".claude.json .codex .gemini .config/opencode .local/share/opencode .config/anthropic .config/openai .huggingface "
    ".cache/huggingface/token .pgpass .my.cnf .mongorc.js .s3cfg .boto .fly .heroku .bash_history .zsh_history "
    ".python_history .node_repl_history .psql_history .mysql_history .Xauthority .ICEauthority .wine"
)
_SYSTEM_SECRETS: Final = words(
    # sockets that lead to keys or to other users' rights, and what only the system itself may read
    "/run/dbus /run/user /run/docker.sock /run/podman /run/containerd /run/systemd /run/secrets /var/run/secrets "
    "/tmp/.X11-unix /tmp/.ICE-unix /tmp/ssh-* /tmp/tmux-* /tmp/dbus-* /tmp/gpg-* /tmp/vscode-* /tmp/krb5cc_* "
    "/etc/shadow* /etc/gshadow* /etc/sudoers* /etc/ssh/ssh_host_*_key /etc/ssl/private /etc/krb5.keytab "
    "/etc/wireguard /etc/kubernetes /etc/rancher /etc/letsencrypt /etc/NetworkManager/system-connections"
)

NAMES_IN_ROOTS: Final = re.compile(
    r"""
    \.env | \.env\.(?!(?:example|sample|template|dist|defaults?|schema|test)$).+ | \.envrc
    | \.netrc | _netrc | \.git-credentials | \.pypirc | \.pgpass | \.my\.cnf | \.dockercfg | \.s3cfg | \.boto
    | \.vault-token | \.vault[-_]pass(?:word)? | id_(?:rsa|dsa|ecdsa|ed25519)(?:_sk)? | .+\.(?:p12|pfx|ppk|kdbx)
    | credentials\.json | service[-_]account.*\.json | client_secret.*\.json | master\.key
    """,
    re.VERBOSE | re.IGNORECASE,
)
"""Files with these names are hidden wherever they lie in the roots. Fewer than are asked about before the agent reads them:
what tests and tools of a project commonly need, such as certificates, stays."""

_SKIPPED_FOLDERS: Final = words(
    ".git node_modules .venv venv .tox .nox __pycache__ .mypy_cache .ruff_cache .pytest_cache .cache target .gradle "
    ".next .nuxt .terraform bower_components site-packages"
)
_MAX_ENTRIES: Final = 50_000
_MAX_HIDDEN: Final = 200  # each costs every command a mount


@dataclass(frozen=True, slots=True)
class SecretScan:
    """What a walk through the roots found; not `complete` if it stopped at a bound."""

    secrets: tuple[str, ...] = ()
    complete: bool = True


def known_secrets(home: str) -> Iterator[str]:
    """The places of keys and logins that exist on this machine now, and Accord's own."""
    candidates = [os.path.join(home, relative) for relative in _IN_HOME]
    candidates += accord_folders()
    for pattern in _SYSTEM_SECRETS:
        candidates += iglob(pattern) if "*" in pattern else (pattern,)
    for path in candidates:
        if os.path.lexists(path):
            yield os.path.realpath(path)
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        # Root may read what no other user may; a command it starts in a sandbox may not.
        yield from _unreadable_by_others("/etc", depth=3)


def accord_folders() -> tuple[str, ...]:
    """Where Accord keeps credentials, settings, logs of sessions and of decisions: where it would by itself, too, if moved."""
    from platformdirs import PlatformDirs

    dirs = PlatformDirs("accord", appauthor=False)
    standard = (dirs.user_config_dir, dirs.user_data_dir, dirs.user_state_dir, dirs.user_cache_dir)
    moved = (config_dir().parent,) if os.environ.get(HOME_VARIABLE) else (config_dir(), data_dir())
    return (*map(str, moved), *standard)


def scan_roots(roots: Sequence[str], names: re.Pattern[str] = NAMES_IN_ROOTS) -> SecretScan:
    """Find the secrets inside the roots by name. Reads folders only; may take a while in large ones."""
    secrets: list[str] = []
    budget = _MAX_ENTRIES
    pending = deque(roots)  # the upper folders first: if the bound is met, then far down
    while pending:
        for entry in _entries(pending.popleft()):
            budget -= 1
            if entry.is_dir(follow_symlinks=False):
                if entry.name not in _SKIPPED_FOLDERS:
                    pending.append(entry.path)
            elif names.fullmatch(entry.name) and os.path.isfile(entry.path):
                secrets.append(os.path.realpath(entry.path))
        if budget <= 0 or len(secrets) > _MAX_HIDDEN:
            return SecretScan(tuple(secrets[:_MAX_HIDDEN]), complete=False)
    return SecretScan(tuple(dict.fromkeys(secrets)))


def _entries(folder: str) -> "list[os.DirEntry[str]]":
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []  # what cannot be listed by us cannot be listed by the command


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
