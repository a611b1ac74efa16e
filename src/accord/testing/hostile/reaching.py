"""Agents that reach for files and terminals they must not have. What came of it is in what they say."""

import os
import shutil
import tempfile

from accord.testing.hostile.agent import HostileAgent, Json

TERMINALS = 1000


class ReadsOutside(HostileAgent):
    """Asks to read `/etc/passwd`: by its name, by `..`, through a link in the folder of the session, and for another session."""

    habit = "reads-outside"

    def prompt(self, asked: Json) -> None:
        """A good client refuses all of them."""
        up = "../" * self.cwd.count("/")
        link = os.path.join(self.cwd, "innocent.txt")
        os.symlink("/etc/passwd", link)
        try:
            for path in (
                "/etc/passwd",
                f"{self.cwd}/{up}etc/passwd",
                link,
                "etc/passwd",
                "/etc/passwd\0.txt",
            ):
                self.report(f"read {path!r}", self.ask("fs/read_text_file", {"path": path}))
            other = self.ask("fs/read_text_file", {"sessionId": "another", "path": "/etc/passwd"})
            self.report("read for another session", other)
        finally:
            os.unlink(link)
        self.finish(asked)


class WritesOutside(HostileAgent):
    """Asks to write outside the folder of the session: by name, by `..`, through a linked file and a linked folder."""

    habit = "writes-outside"

    def prompt(self, asked: Json) -> None:
        """A good client refuses all of them, and nothing is changed there."""
        outside = tempfile.mkdtemp(prefix="hostile-")
        victim = os.path.join(outside, "victim.txt")
        with open(victim, "w") as file:
            file.write("untouched")
        links = [os.path.join(self.cwd, name) for name in ("link.txt", "linked")]
        os.symlink(victim, links[0])
        os.symlink(outside, links[1])
        try:
            beside = os.path.relpath(outside, self.cwd)
            for path in (
                victim,
                f"{self.cwd}/{beside}/new.txt",
                links[0],
                f"{links[1]}/new.txt",
                "/dev/full",
            ):
                answer = self.ask("fs/write_text_file", {"path": path, "content": "owned"})
                name = path.replace(outside, "OUTSIDE").replace(beside, "OUTSIDE")
                self.report(f"write {name!r}", answer)
            with open(victim) as file:
                untouched = file.read() == "untouched" and os.listdir(outside) == ["victim.txt"]
            self.say(f"outside: {'untouched' if untouched else 'CHANGED'}\n")
        finally:
            for link in links:
                os.unlink(link)
            shutil.rmtree(outside)
        self.finish(asked)


class ManyTerminals(HostileAgent):
    """Asks for 1 000 terminals with commands that never end, releases none, and answers."""

    habit = "many-terminals"

    def prompt(self, asked: Json) -> None:
        """All at once; how many it got is said."""
        forever = {"command": "/bin/sh", "args": ["-c", "while :; do sleep 60; done"]}
        ids = [self.begin("terminal/create", forever) for _ in range(TERMINALS)]
        got = sum("result" in answer for answer in self.answers_to(ids))
        self.say(f"asked for {TERMINALS} terminals, got {'some' if 0 < got < TERMINALS else got}")
        self.finish(asked)


class TerminalOutside(HostileAgent):
    """Asks for a terminal in `/etc`, for one of a session that is not there, and for the output of a terminal it never made."""

    habit = "terminal-outside"

    def prompt(self, asked: Json) -> None:
        """A good client starts none of them."""
        create = {"command": "/bin/cat", "args": ["passwd"]}
        self.report("in /etc", self.ask("terminal/create", {**create, "cwd": "/etc"}))
        self.report("of another session", self.ask("terminal/create", {**create, "sessionId": "another"}))
        self.report("output of nothing", self.ask("terminal/output", {"terminalId": "t999"}))
        self.finish(asked)


HABITS = (ReadsOutside, WritesOutside, ManyTerminals, TerminalOutside)
