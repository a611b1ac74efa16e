"""The tour: a session with the scripted model in a folder of its own. Imported on first use."""

import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from accord.frontend.known_agents import BUILT_IN
from accord.tui.chat_types import ChatStart, Draft
from accord.tui.key_footer import key_of

if TYPE_CHECKING:
    from accord.frontend.agent_config import ConfiguredAgent
    from accord.frontend.agent_config.project_trust import TrustCallback
    from accord.tui.chat_app import ChatApp
    from accord.tui.session_view import SessionView

_FILE: Final = "greeting.py"
_CODE: Final = 'def greet(name):\n    return f"Helo, {name}!"\n\n\nprint(greet("world"))\n'


class TourHint(NamedTuple):
    """What is said, and the prompt that the user sends next."""

    text: str
    prompt: str


STEPS: Final = (
    TourHint(
        f"1 of 4, a plan. The agent looks at {_FILE}, which greets with a typing error. Press Enter.",
        f"plan: read the code; fix the greeting; check it then read {_FILE}",
    ),
    TourHint(
        "2 of 4, a change. Press Enter. The agent asks before it changes a file: a allows, r rejects.",
        f"replace Helo with Hello in {_FILE}",
    ),
    TourHint(
        f"3 of 4, go back. {_FILE} is as it was before, and your prompt comes back. Press Enter.",
        "/undo",
    ),
    TourHint(
        "4 of 4, look at all changes. Clear the prompt with Ctrl+C, then type /review, or send this again.",
        "",
    ),
)
_BEGIN: Final = (
    "The tour: two minutes, without a key. A script plays the model; the agent, its questions and the files "
    "are real, in a folder that is removed at the end."
)
_INSTEAD: Final = (
    f"Say what to do instead: the script knows `replace Helo with Hi in {_FILE}`. Then the tour goes on."
)
_END: Final = "That was the tour. Alt+W closes it; `accord tour` shows more in a terminal."


class Tour:
    """Says the next step after each turn."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._next = 0
        self._turns = 0
        self._user_says_next = False

    def begin(self, view: "SessionView") -> None:
        """Show the first step."""
        view.note(_BEGIN)
        self._step(view)

    def turn_ended(self, view: "SessionView") -> None:
        """Show the next step after a turn; after a rejection with `e`, once the user has said what to do."""
        if view.turns > self._turns:
            self._turns = view.turns
            if self._user_says_next:
                self._user_says_next = False
                view.note(_INSTEAD)
            else:
                self._step(view)

    def rejected(self) -> None:
        """Leave the prompt to the user, who says what to do instead."""
        self._user_says_next = True

    def rewound(self, view: "SessionView") -> None:
        """Show the next step after an undo."""
        self._step(view)

    def close(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def _step(self, view: "SessionView") -> None:
        if self._next == len(STEPS):
            view.note(_END)
        elif self._next < len(STEPS):
            step = STEPS[self._next]
            view.note(step.text)
            if step.prompt:
                view.after_keys(lambda: _offer(view, step.prompt))
        self._next += 1


def _offer(view: "SessionView", prompt: str) -> None:
    """Write the next prompt of the tour; put it aside while the user is writing something else."""
    if view.prompt.draft:
        view.stash.append(Draft(prompt))
        view.note(
            f"Your text stays in the prompt. In an empty one, {key_of(view, 'stash')} shows that of the tour."
        )
    else:
        view.prompt.editor.write(prompt)


async def open_tour(app: "ChatApp") -> None:
    """Open the tour in a new tab."""
    choose_agent = app.choose_agent
    folder = Path(tempfile.mkdtemp(prefix="accord-tour-"))
    project = folder / "project"
    project.mkdir()
    (project / _FILE).write_text(_CODE)

    def find(trusting: "TrustCallback") -> "ConfiguredAgent":
        assert choose_agent is not None, "checked below"
        found = choose_agent(BUILT_IN, str(project), trusting)
        return replace(found, option_env={"ACCORD_MODEL": "rehearsal", "ACCORD_HOME": str(folder / "home")})

    if choose_agent is None:
        shutil.rmtree(folder, ignore_errors=True)
        app.notify("The tour needs `accord chat` with its own agent")
        return
    start = ChatStart(find_agent=find, cwd=str(project), name=BUILT_IN, permissions="ask", model_script=True)
    view = await app.open(start)
    view.tour = Tour(folder)
    view.tour.begin(view)
