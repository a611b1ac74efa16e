"""The agent in the screenshots of the page: it edits greet.py and runs it, or asks which format to parse."""

import sys

import accord
from accord.schema import (
    PermissionOption,
    PlanEntryStatus,
    SessionConfigSelect,
    SessionConfigSelectOption,
    StringPropertySchema,
)

FILE = "greet.py"
OLD_LINE = 'print("Hello " + name)'
NEW_LINE = 'print(f"Welcome, {name}!")'
CODE = f'''"""Greets people."""


def greet(name):
    {OLD_LINE}


def main():
    greet("world")


if __name__ == "__main__":
    main()
'''
OPTIONS = [
    PermissionOption("once", "Allow", "allow_once"),
    PermissionOption("always", "Always allow edits", "allow_always"),
    PermissionOption("no", "Reject", "reject_once"),
    PermissionOption("never", "Always reject edits", "reject_always"),
]
STEPS = ("Read the code", "Change the greeting", "Run it")
SCRIPT = (
    r"printf '\033[1mtests\033[0m \033[32m....\033[0m \033[36m[100%%]\033[0m\n'; "
    rf"printf '\033[32m4 passed\033[0m in 0.02s\n'; {sys.executable} {FILE}"
)
SUMMARY = f"""The greeting is warmer now.

1. `greet.py` line 5 uses an f-string: `{NEW_LINE}`
2. All four tests pass.

```python
>>> greet("world")
Welcome, world!
```
"""

agent = accord.Agent("example", version="1.0", title="Example")


@agent.new_session
async def new_session(session: accord.AgentSession) -> None:
    mode = [SessionConfigSelectOption("ask", "Ask"), SessionConfigSelectOption("code", "Code")]
    model = [SessionConfigSelectOption("small", "Small"), SessionConfigSelectOption("large", "Large")]
    session.config_options = [
        SessionConfigSelect("mode", "Mode", "ask", mode, category="mode"),
        SessionConfigSelect("model", "Model", "large", model, category="model"),
    ]


@agent.prompt
async def prompt(turn: accord.Turn) -> None:
    if "greeting" in turn.text:
        await change_greeting(turn)
    else:
        await ask_for_format(turn)


async def change_greeting(turn: accord.Turn) -> None:
    await plan(turn, done=0)
    await turn.think("The user wants a warmer greeting. I read the code first.")
    await turn.say("I look at the greeting first.")
    async with turn.tool_call(f"Read {FILE}", kind="read", locations=[FILE], start=True) as call:
        await call.text(f"```python\n{CODE}```")
    await plan(turn, done=1)
    await turn.usage(8200, 200_000)
    await turn.say(f"`greet` puts the text together with `+`. I replace `{OLD_LINE}` with an f-string.")
    new = CODE.replace(OLD_LINE, NEW_LINE)
    async with turn.tool_call(f"Edit {FILE}", kind="edit", locations=[FILE]) as call:
        await call.diff(FILE, old=CODE, new=new)
        if await call.ask_permission(OPTIONS):
            await turn.client.write_text_file(FILE, new)
    await plan(turn, done=2)
    await turn.say("Now I run the tests and the program.")
    async with turn.tool_call(f"pytest -q; python {FILE}", kind="execute", start=True) as call:
        await turn.run("sh", ["-c", SCRIPT], call=call)
    await plan(turn, done=3)
    await turn.usage(9600, 200_000, cost=(0.05, "USD"))
    await turn.say(SUMMARY)


async def plan(turn: accord.Turn, done: int) -> None:
    """Show the plan with this many completed steps."""

    def status(index: int) -> PlanEntryStatus:
        return "completed" if index < done else "in_progress" if index == done else "pending"

    await turn.plan([(step, status(index)) for index, step in enumerate(STEPS)])


async def ask_for_format(turn: accord.Turn) -> None:
    formats = StringPropertySchema(title="Format", enum=["TOML", "JSON", "YAML"])
    path = StringPropertySchema(title="Path", description="Where the parser looks first", max_length=100)
    await turn.elicit("Which format should the parser read?", {"format": formats, "path": path})


if __name__ == "__main__":
    agent.serve()
