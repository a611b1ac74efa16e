"""`accord agent`: checks the arguments and serves the coding agent on stdin and stdout.

Loaded before `initialize` is answered: keep heavy imports out. `agent_arguments` is imported only if there
are arguments, and the checks avoid imports where they can. Only `--help` writes to stdout.
"""

import os
import sys
from collections.abc import Sequence
from typing import Final

_TERMINAL_HINT: Final = (
    "accord agent: waiting for an ACP client on stdin. To talk to the agent here, use `accord chat`, or "
    "`accord run PROMPT` for one prompt. `accord agents setup EDITOR` configures an editor. Ctrl-D ends it."
)


def script() -> int:
    """Run `accord agent` as the program `accord-agent`."""
    from accord.cli import main as accord

    return accord(["agent", *sys.argv[1:]])


def main(arguments: Sequence[str]) -> int:
    """Serve until the client disconnects; or sign in or out."""
    options = None
    if arguments:
        from accord.cli.agent_arguments import run_other_task, start_options

        if (code := run_other_task(arguments)) is not None:
            return code
        options = start_options(arguments)
    _check_config()
    _check_model(None if options is None else options.model)

    if sys.stdin is not None and sys.stdin.isatty():  # a user started it by hand
        print(_TERMINAL_HINT, file=sys.stderr, flush=True)
    from accord.coder.coding_agent import serve
    from accord.coder.resources import CoderOptions

    serve(options or CoderOptions())
    return 0


def _check_config() -> None:
    from accord.paths import CONFIG_NAMES, config_folder

    if any(os.path.exists(os.path.join(config_folder(), name)) for name in CONFIG_NAMES):
        from accord.coder.user_config import PERMISSION_KEYS, load_config

        config = load_config()
        if config.file is not None and any(key in config.mapping for key in PERMISSION_KEYS):
            from accord.coder.permissions.permission_settings import permission_settings

            permission_settings(config.mapping, config.file)


def _check_model(text: str | None) -> None:
    from accord.coder.models.model_name import MODEL_VARIABLE, PROVIDER_KINDS, REHEARSAL, normalize_provider

    text = text or os.environ.get(MODEL_VARIABLE)
    if text is None or not text.strip() or text.strip() == REHEARSAL:
        return
    provider, _, name = text.replace("/", ":").partition(":")
    if not (name.strip() and normalize_provider(provider) in PROVIDER_KINDS):
        from accord.coder.models import ModelRegistry
        from accord.coder.models.agent_as_model import ACP

        if ModelRegistry().find(text).provider in (REHEARSAL, ACP):
            return
    from accord.extras import require

    require("agent", f"the model {text.strip()}")
