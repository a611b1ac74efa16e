"""Names of files that hold keys and logins, and of project files that configure other programs.

Access to both needs a permission of its own. Names are compared without case, because the disk may ignore it
too.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_SECRET_NAME: Final = re.compile(
    r"""
    \.env(?:\.(?!(?:example|sample|template|dist|defaults?|schema)$).+)? | .+\.env | \.envrc
    | \.netrc | _netrc | \.npmrc | \.pypirc | \.pgpass | \.my\.cnf | \.yarnrc\.yml | \.git-credentials
    | \.dockercfg | \.htpasswd | \.s3cfg | \.boto | rclone\.conf | \.vault-token | \.vault[-_]pass(?:word)?
    | \.terraformrc | .+\.kubeconfig | id_(?:rsa|dsa|ecdsa|ed25519)(?:_sk)?(?!.*\.pub$).*
    | .+\.(?:pem|key|p12|pfx|jks|keystore|kdbx|ppk|p8|ovpn|tfstate|tfvars|asc\.key)
    | credentials\.(?:json|ya?ml|toml|ini|xml|csv|db|tfrc\.json) | service[-_]account.*\.json
    | client_secret.*\.json | \.?secrets?\.(?:json|ya?ml|toml|ini|env|txt) | \.secrets?
    | \.?tokens?\.(?:json|txt) | \.tokens? | auth\.json
    | \..+_history | master\.key | \.gitconfig
    """,
    re.VERBOSE | re.IGNORECASE,
)
# These words are also names of branches, scripts and options, so only existing files count.
_SECRET_WORD: Final = re.compile(
    r"secrets?|tokens?|.+[-_]token|credentials|g?shadow-?|environ|kubeconfig", re.IGNORECASE
)
_SECRET_FOLDERS: Final = frozenset(
    """
    .ssh .gnupg .aws .azure .kube .password-store .gcloud .oci .pki .terraform.d .mozilla .thunderbird
    keyrings
    """.split()
)
_SECRET_PATHS: Final = tuple(
    tuple(tail.split("/"))
    for tail in (
        ".git/config", ".config/gcloud", ".config/gh", ".config/hub", ".config/op", ".config/sops",
        ".config/rclone", ".docker/config.json", ".config/containers/auth.json", ".config/git/credentials",
        ".cargo/credentials", ".gem/credentials", ".m2/settings.xml", ".gradle/gradle.properties",
        ".config/anthropic", ".config/openai", ".cache/huggingface/token", ".claude.json",
        ".codex/auth.json", ".config/github-copilot", "etc/sudoers", "etc/sudoers.d", "etc/ssl/private",
        "run/secrets", ".config/git/config", "etc/gitconfig",
    )
)  # fmt: skip
# `secret` and `token` are also common names of code files, which are excluded.
_CODE_SUFFIXES: Final = frozenset(
    """
    .py .js .ts .tsx .jsx .go .rs .java .kt .c .h .cc .cpp .hpp .rb .php .cs .swift .md .rst .html .css
    """.split()
)
_CONFIG_FOLDERS: Final = frozenset(
    """
    .git .accord .agents .vscode .idea .zed .husky .githooks .direnv .devcontainer .claude .codex .cursor
    .gemini .kiro .opencode .qwen .roo .windsurf
    """.split()
)
_CONFIG_FILES: Final = frozenset(
    (
        ".gitmodules", ".mcp.json", "acp.json", ".envrc", ".gitattributes", ".pre-commit-config.yaml",
        "lefthook.yml", ".lefthook.yml", "opencode.json", ".exrc", ".nvimrc", ".nvim.lua", ".dir-locals.el",
        # Instructions for agents: text that one session writes there would direct all later sessions.
        "agents.md", "agent.md", "agentao.md", "claude.md", "gemini.md", "copilot-instructions.md", ".rules",
        ".cursorrules",
        ".windsurfrules", ".clinerules",
    )
)  # fmt: skip


def is_secret_word(path: Path) -> bool:
    """Whether the name means a secret, if it is the name of a file."""
    return _SECRET_WORD.fullmatch(path.name) is not None


def is_secret(path: Path) -> bool:
    """Whether a file of this name is likely to hold a secret."""
    parts = [part.casefold() for part in path.parts]
    if not parts:
        return False
    if _SECRET_NAME.fullmatch(parts[-1]) and path.suffix.casefold() not in _CODE_SUFFIXES:
        return True
    if _SECRET_WORD.fullmatch(parts[-1]) and path.is_file():
        return True
    if _SECRET_FOLDERS.intersection(parts) and not parts[-1].endswith(".pub"):
        return True
    return any(
        tuple(parts[start : start + len(tail)]) == tail
        for tail in _SECRET_PATHS
        for start, part in enumerate(parts)
        if part == tail[0]
    )


def configures_programs(path: Path) -> bool:
    """Whether writing it changes what other programs do: hooks, editor settings, instructions for agents."""
    parts = [part.casefold() for part in path.parts]
    return bool(_CONFIG_FOLDERS.intersection(parts)) or (bool(parts) and parts[-1] in _CONFIG_FILES)


def is_steering_name(name: str, *, folder: bool) -> bool:
    """Whether a file, or a folder with all it holds, steers other programs because of its name."""
    return name.casefold() in (_CONFIG_FOLDERS if folder else _CONFIG_FILES)


# The names above as patterns of git. They may match more, never less.

_HARMLESS_ENV_ENDINGS: Final = ("example", "sample", "template", "dist", "default", "defaults", "schema")
_SECRET_GLOBS: Final = """
    .env ?*.env .envrc .netrc _netrc .npmrc .pypirc .pgpass .my.cnf .yarnrc.yml .git-credentials .gitconfig
    .dockercfg .htpasswd .s3cfg .boto rclone.conf .vault-token .vault[-_]pass .vault[-_]password .terraformrc
    ?*.kubeconfig ?*.{pem,key,p12,pfx,jks,keystore,kdbx,ppk,p8,ovpn,tfstate,tfvars}
    id_{rsa,dsa,ecdsa,ed25519} id_{rsa,dsa,ecdsa,ed25519}[!.]*
    credentials.{json,yaml,yml,toml,ini,xml,csv,db,tfrc.json} service[-_]account*.json client_secret*.json
    {secret,secrets,.secret,.secrets}.{json,yaml,yml,toml,ini,env,txt} .secret .secrets
    {token,tokens,.token,.tokens}.{json,txt} .token .tokens auth.json .?*_history
    {secret,secrets,token,tokens,credentials,shadow,gshadow,shadow-,gshadow-,environ,kubeconfig} ?*[-_]token
"""


def secret_pathspecs() -> tuple[str, ...]:
    """Return git's pathspecs that leave out every secret file, in any folder and of any revision."""
    globs = [glob for word in _SECRET_GLOBS.split() for glob in _expand_alternatives(word)]
    globs += (f".env.{ending}" for ending in _all_but(_HARMLESS_ENV_ENDINGS))
    for kind in ("rsa", "dsa", "ecdsa", "ed25519"):
        globs += (f"id_{kind}.{ending}" for ending in _all_but(("pub",)))
    globs += (f"{folder}/**" for folder in sorted(_SECRET_FOLDERS))
    for tail in map("/".join, _SECRET_PATHS):
        globs += (tail, f"{tail}/**")
    return tuple(f":(top,exclude,icase,glob)**/{glob}" for glob in globs)


def _expand_alternatives(text: str) -> Iterator[str]:
    start, brace, rest = text.partition("{")
    if not brace:
        yield text
        return
    choices, _, end = rest.partition("}")
    for choice in choices.split(","):
        yield from _expand_alternatives(f"{start}{choice}{end}")


def _all_but(words: tuple[str, ...]) -> Iterator[str]:
    """Yield patterns that together match every text except these words and the empty text."""
    starts = {word[:length] for word in words for length in range(len(word) + 1)}
    for start in sorted(starts):
        following = "".join(
            sorted({word[len(start)] for word in words if word.startswith(start) and word != start})
        )
        yield f"{start}[!{following}]*" if following else f"{start}?*"
        if start and start not in words:
            yield start
