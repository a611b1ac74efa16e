"""What an "always" covers: a program with its subcommand (`git commit`, `npm test`, `python -m pytest`).

Without a scope no "always" is offered: the command can do anything, or one of its options goes beyond the
subcommand.
"""

from collections.abc import Callable
from typing import Final

from accord.policy.programs.git_commands import GIT_GLOBAL_FLAGS, GIT_GLOBAL_VALUED
from accord.policy.programs.program_options import ParsedArguments, option_names, parse_arguments
from accord.policy.programs.wrappers import SHELLS
from accord.policy.shell.syntax import SimpleCommand

CommandScope = tuple[str, ...]

NEVER_GRANTED: Final = frozenset(
    """
    rm shred dd mkfs wipefs fdisk parted sudo su doas pkexec chown chgrp chroot kill pkill killall eval
    source . exec env xargs parallel ssh scp sftp rsync nc ncat netcat socat telnet ftp expect screen
    tmux at batch crontab systemctl service systemd-run nsenter unshare bwrap gdb strace ltrace perf
    flock script awk gawk mawk sed perl ruby php lua osascript curl wget http https aria2c security
    keyctl gpg passwd useradd usermod visudo mount umount iptables nft printenv set export declare alias
    trap watch entr busybox toybox find fd time crun runc nix-shell direnv
    """.split()
)
"""Programs that are asked for each time, because only their arguments decide what they do."""

_INTERPRETERS: Final = frozenset(
    ("python", "python2", "python3", "pypy", "pypy3", "node", "deno", "bun", "tsx", "ts-node")
)
_COMMON_FLAGS: Final = option_names("-h --help -v --verbose -q --quiet --silent -y --yes --no-color")
_WITH_SUBCOMMANDS: Final = frozenset(
    """
    npm pnpm yarn bun cargo go pip pip3 uv poetry pdm hatch rye pipenv conda mamba kubectl helm
    terraform tofu dotnet mix rake composer rails brew apt apt-get dnf yum apk pacman rustup pre-commit
    flutter dart swift nix bazel bazelisk buck2 alembic flask django-admin docker-compose gradle mvn
    just task invoke cdk pulumi sam serverless vercel netlify wrangler firebase heroku fly flyctl
    supabase prisma drizzle-kit lerna nx turbo rush ng vue expo pod fastlane ember gatsby next vite
    vitest playwright cypress ansible vagrant minikube kind skaffold tilt argocd flux istioctl buf sqlx
    diesel mdbook hugo jekyll luarocks opam stack cabal dune rebar3 lein sbt mill ant zig gleam deno
    jupyter dvc mlflow bundle gem
    """.split()
)
# The number of words that name the subcommand.
_SUBCOMMAND_DEPTH: Final[dict[str, int]] = {
    **dict.fromkeys(_WITH_SUBCOMMANDS, 1),
    **dict.fromkeys(frozenset("gh glab aws gcloud az doctl oc".split()), 2),
    "git": 1,
    "docker": 1,
    "podman": 1,
    "make": 1,
    "gmake": 1,
}
_DEEPER_SUBCOMMANDS: Final[dict[CommandScope, int]] = {
    ("npm", "run"): 2, ("npm", "run-script"): 2, ("npm", "exec"): 2, ("npm", "x"): 2, ("pnpm", "run"): 2,
    ("pnpm", "exec"): 2,
    ("pnpm", "dlx"): 2, ("yarn", "run"): 2, ("yarn", "exec"): 2, ("yarn", "dlx"): 2, ("bun", "run"): 2,
    ("bun", "x"): 2,
    ("go", "run"): 2, ("go", "tool"): 2, ("go", "mod"): 2, ("go", "work"): 2, ("uv", "pip"): 2,
    ("uv", "tool"): 3,
    ("docker", "compose"): 2, ("docker", "container"): 2, ("docker", "image"): 2, ("docker", "volume"): 2,
    ("docker", "network"): 2, ("podman", "compose"): 2, ("deno", "run"): 2, ("deno", "task"): 2,
    ("cargo", "run"): 1,
    ("kubectl", "config"): 2, ("kubectl", "rollout"): 2, ("terraform", "state"): 2,
}  # fmt: skip
_UNBOUNDED: Final = frozenset(
    tuple(line.split())
    for line in (
        "docker run", "docker exec", "podman run", "podman exec", "docker compose run",
        "docker compose exec", "kubectl exec",
        "kubectl run", "kubectl delete", "docker container run", "docker container exec", "git config",
        "git submodule",
        "git bisect", "git filter-branch", "git difftool", "git mergetool", "git daemon", "git instaweb",
        "npm config",
        "npm publish", "npm exec", "npm x", "pnpm exec", "yarn exec", "bun x", "cargo publish", "gh api",
        "gh auth",
        "aws configure", "pip config", "uv publish", "poetry publish", "poetry config", "go env",
        "go generate", "conda run",
        "docker login", "docker context", "git remote", "terraform destroy", "deno eval",
    )
)  # fmt: skip
# The options that may come before the subcommand.
_OPTIONS: Final[dict[str, tuple[frozenset[str], frozenset[str]]]] = {
    "git": (GIT_GLOBAL_FLAGS, GIT_GLOBAL_VALUED),
    "npm": (
        _COMMON_FLAGS | option_names("-s -d --workspaces --if-present"),
        option_names("-w --workspace --prefix"),
    ),
    "pnpm": (
        _COMMON_FLAGS | option_names("-r -s -w --recursive --workspace-root"),
        option_names("-C --filter --dir -F"),
    ),
    "yarn": (_COMMON_FLAGS, option_names("--cwd")),
    "cargo": (_COMMON_FLAGS | option_names("--locked --offline --frozen"), option_names("--color")),
    "make": (option_names("-s -k -i -B -n --silent --keep-going"), option_names("-C -j --jobs --directory")),
    "gmake": (option_names("-s -k -i -B -n --silent --keep-going"), option_names("-C -j --jobs --directory")),
    "kubectl": (_COMMON_FLAGS, option_names("-n --namespace --context")),
    "docker": (_COMMON_FLAGS | option_names("-D"), option_names("--context")),
    "gradle": (_COMMON_FLAGS | option_names("--no-daemon --offline --stacktrace --info"), option_names("-p")),
    "mvn": (_COMMON_FLAGS | option_names("-B -o -U"), option_names("-pl -T")),
}
# Options beyond the subcommand: they run or load what they name, or destroy the work of others.
_LEAVES_SCOPE: Final[dict[str, tuple[str, ...]]] = {
    "git": (
        "--exec", "-x", "--upload-pack", "--receive-pack", "--ext-diff", "--output", "--open-files-in-pager",
        "-O", "-c",
        "--config", "--config-env", "--template", "-f", "--force", "--force-with-lease", "--mirror",
        "--delete", "-d",
        "-D", "--hard", "--prune", "--separate-git-dir", "--textconv", "--filters", "--gpg-sign", "-S",
        "--no-index",
    ),
    "npm": (
        "--script-shell",
        "--node-options",
        "--userconfig",
        "--globalconfig",
        "--shell",
        "--ignore-scripts=false",
    ),
    "cargo": ("--config", "-Z"),
    "go": ("-exec", "-toolexec", "-overlay", "-modfile", "-vettool"),
    "make": ("-f", "--file", "--makefile", "--eval", "-E", "-I"),
    "docker": ("--privileged", "-v", "--volume", "--mount", "-f", "--file"),
    "pip": (
        "--index-url",
        "-i",
        "--extra-index-url",
        "--config-settings",
        "-f",
        "--find-links",
        "--trusted-host",
    ),
    "kubectl": ("--kubeconfig", "-f", "--filename"),
    "terraform": ("-auto-approve", "-destroy"),
}  # fmt: skip
_RUNNERS: Final = frozenset(
    tuple(line.split())
    for line in (
        "uv run", "poetry run", "pdm run", "hatch run", "pipenv run", "rye run", "bundle exec", "npx",
        "bunx", "pnpx", "uvx",
        "pipx run",
    )
)  # fmt: skip
"""Programs that run another one in their own environment. The scope contains both."""

PathResolver = Callable[[str], str | None]


def scope_of(command: SimpleCommand, resolve: PathResolver = str) -> CommandScope | None:
    """Return what an "always" for this command covers during the session.

    `resolve` returns the real path of a program or script, or None if it is not the same from every
    directory.
    """
    program = command.program
    if program is None or command.name in NEVER_GRANTED or command.name in SHELLS or _leaves_scope(command):
        return None
    if "/" in program:
        path = resolve(program)
        if path is None:
            return None
        program = path
    if command.name in _INTERPRETERS:
        return _interpreter_scope(command, program, resolve)
    flags, valued = _OPTIONS.get(command.name, (_COMMON_FLAGS, frozenset()))
    parsed = parse_arguments(command.arguments, flags, valued, first_operand_ends=True)
    runner = (command.name,) if (command.name,) in _RUNNERS else _first_words(command.name, parsed, 1)
    if runner in _RUNNERS and parsed is not None:
        inner = command.inner_command(tuple(parsed.operands[len(runner) - 1 :]))
        scope = scope_of(inner, resolve)
        return scope and (program, *runner[1:], *scope)
    depth = _SUBCOMMAND_DEPTH.get(command.name)
    if depth is None:
        return (program,)
    if parsed is not None and not parsed.operands:
        return (program,)  # `make`, `cargo --help`
    first = _first_words(command.name, parsed, 1)
    scope = _first_words(command.name, parsed, _DEEPER_SUBCOMMANDS.get(first, depth)) if first else None
    if scope is None or any(scope[: len(unbounded)] == unbounded for unbounded in _UNBOUNDED):
        return None
    return (program, *scope[1:])


def _first_words(name: str, parsed: ParsedArguments | None, depth: int) -> CommandScope | None:
    """Return the program and its first words. They must be certain and no options."""
    texts = [word.text for word in parsed.operands[:depth]] if parsed else []
    if len(texts) < depth or any(
        text is None or not text or text[0] in "-+@" or "=" in text for text in texts
    ):
        return None
    return (name, *(text for text in texts if text is not None))


def _interpreter_scope(command: SimpleCommand, program: str, resolve: PathResolver) -> CommandScope | None:
    """`python -m pytest`, or a script by its path. Code on the command line has no scope."""
    words = [word.text for word in command.arguments]
    first, second = [*words, None, None][:2]
    if first is None:
        return None
    if first == "-m":
        if second is None or second.startswith("-"):
            return None
        third = words[2] if len(words) > 2 else None
        return (
            (program, "-m", second) if second != "pip" else (third and (program, "-m", "pip", third)) or None
        )
    if command.name in ("deno", "bun"):
        if first in ("run", "task"):
            script = resolve(second) if second and first == "run" else second
            return (script and (program, first, script)) or None
        return (program, first) if first in ("test", "install", "build", "fmt", "lint", "check") else None
    script = None if first.startswith("-") else resolve(first)
    return (script and (program, script)) or None


def _leaves_scope(command: SimpleCommand) -> bool:
    name = {"pip3": "pip", "gmake": "make", "podman": "docker", "tofu": "terraform"}.get(
        command.name, command.name
    )
    options = _LEAVES_SCOPE.get(name)
    if options is None:
        return False
    letters = {option[1] for option in options if len(option) == 2}
    for index, word in enumerate(command.arguments):
        text = word.text
        if text is None:
            if not _cannot_be_option(command, index):
                return True
        elif text.startswith("--"):
            option_text = text.partition("=")[0]  # may be abbreviated
            if any(
                option.startswith(option_text) or option == option_text[1:]
                for option in options
                if len(option_text) > 2
            ):
                return True
        elif text.startswith("-"):
            if letters & set(text[1:]) or text.partition("=")[0] in options:
                return True
        elif text.startswith(("ext::", "+", ":")) or (name == "make" and "=" in text):
            return True
    return False


def _cannot_be_option(command: SimpleCommand, index: int) -> bool:
    """Whether an uncertain word certainly is no option."""
    word = command.arguments[index]
    if word.parts[0].kind == "text" and word.parts[0].text[:1] not in ("", "-", "*", "?", "["):
        return not word.has_braces
    before = command.arguments[index - 1].text if index else None
    first = command.arguments[0].text
    message = before in ("-m", "-am", "--message") and command.name == "git" and first in ("commit", "tag")
    return message and all(part.quoted for part in word.parts)
