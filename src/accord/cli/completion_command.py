"""`accord completion`: prints the completion script of a shell, or the names of agents for such a script.

The scripts are files of the package, so that printing one is fast. `make commands` writes them.
"""

import os
import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from accord.cli.command_parser import Parser

SCRIPTS: Final = {"bash": "accord.bash", "zsh": "_accord", "fish": "accord.fish", "powershell": "accord.ps1"}
"""Each shell with the file of its script in `accord/cli/completion`."""

_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]*")
"""Other names are left out: bash expands the words that it completes, as in `$(...)`."""


def main(arguments: Sequence[str]) -> int:
    """Print a script, or the names of the agents, one per line."""
    shell = arguments[0] if len(arguments) == 1 else ""
    if shell == "agents":  # only the scripts use it, so it is not in the help
        return _print_agents()
    if shell not in SCRIPTS:  # the parser is for help and errors: shells print a script at their start
        shell = _parser().parse_args(arguments).shell
    with open(
        os.path.join(os.path.dirname(__file__), "completion", SCRIPTS[shell]), encoding="utf-8"
    ) as file:
        sys.stdout.write(file.read())
    return 0


def _parser() -> "Parser":
    from accord.cli.command_parser import Parser

    parser = Parser("accord completion", "Print the completion script of a shell.")
    parser.add_argument("shell", choices=tuple(SCRIPTS), help="shell")
    parser.epilog = (
        'bash: eval "$(accord completion bash)" in ~/.bashrc. zsh: accord completion zsh > DIR/_accord, '
        "with DIR in fpath before compinit. fish: accord completion fish > "
        "~/.config/fish/completions/accord.fish. PowerShell: accord completion powershell | Out-String | "
        "Invoke-Expression in $PROFILE."
    )
    return parser


def _print_agents() -> int:
    from accord.frontend.agent_config import leave_out, load

    agents = load(".", trust=leave_out)
    untrusted = agents.untrusted_file.agents if agents.untrusted_file is not None else ()
    for name in dict.fromkeys(agent.name for agent in (*agents, *untrusted)):
        if _PLAIN_NAME.fullmatch(name):
            print(name)
    return 0
