"""What to paste where settings are program code, or what to type where there are none."""

import shlex
from collections.abc import Mapping, Sequence

_CODECOMPANION = """\
-- codecompanion.nvim
require("codecompanion").setup({
  adapters = {
    acp = {
      @key@ = function()
        return require("codecompanion.adapters").extend("goose", {
          name = @name@,
          formatted_name = @title@,
          commands = { default = { @argv@ } },
        })
      end,
    },
  },
  interactions = { chat = { adapter = @name@ } },
})
"""

_AVANTE = """\
-- avante.nvim: the agent gets PATH and what stands in env, nothing else; name the key of your model there
require("avante").setup({
  provider = @name@,
  acp_providers = {
    [@name@] = {
      command = @program@,
      args = { @args@ },
      env = { @env@ },
    },
  },
})
"""

_AGENTIC = """\
-- agentic.nvim
require("agentic").setup({
  provider = @name@,
  acp_providers = {
    [@name@] = { name = @title@, command = @program@, args = { @args@ }, env = {} },
  },
})
"""

PLUGINS: Mapping[str, str] = {"codecompanion": _CODECOMPANION, "avante": _AVANTE, "agentic": _AGENTIC}

_EMACS = """\
;; agent-shell; if your agent-shell-agent-configs is a function, add the config to what it returns
(with-eval-after-load 'agent-shell
  (add-to-list
   'agent-shell-agent-configs
   (agent-shell-make-agent-config
    :identifier '@symbol@
    :mode-line-name @title@
    :buffer-name @title@
    :shell-prompt @prompt@
    :shell-prompt-regexp @prompt@
    :client-maker
    (lambda (buffer)
      (acp-make-client :command @program@
                       :command-params '(@args@)
                       :environment-variables nil
                       :context-buffer buffer)))))
"""


def neovim(plugin: str, name: str, command: Sequence[str], passed: Sequence[str]) -> str:
    """Lua for one of the plugins. `passed` are the variables the agent needs where nothing is inherited."""
    env = ", ".join(f'{variable} = os.getenv("{variable}")' for variable in passed)
    return _filled(
        PLUGINS[plugin],
        key=f"[{_quoted(name)}]",
        name=_quoted(name),
        title=_quoted(_title(name)),
        argv=", ".join(map(_quoted, command)),
        program=_quoted(command[0]),
        args=", ".join(map(_quoted, command[1:])),
        env=env,
    )


def emacs(name: str, command: Sequence[str]) -> str:
    """Lisp for agent-shell."""
    return _filled(
        _EMACS,
        symbol="".join(char if char.isalnum() or char == "-" else "-" for char in name),
        title=_quoted(_title(name)),
        prompt=_quoted(f"{_title(name)}> "),
        program=_quoted(command[0]),
        args=" ".join(map(_quoted, command[1:])),
    )


def toad(name: str, command: Sequence[str]) -> str:
    """The command line. Toad runs one text through a shell, so it is quoted twice."""
    return f"toad acp {shlex.quote(shlex.join(command))} --title {shlex.quote(_title(name))}\n"


def _filled(template: str, **values: str) -> str:
    for name, value in values.items():
        template = template.replace(f"@{name}@", value)
    return template


def _title(name: str) -> str:
    return name[:1].upper() + name[1:]


def _quoted(text: str) -> str:
    """A text in Lua and in Emacs Lisp, which escape these alike."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
