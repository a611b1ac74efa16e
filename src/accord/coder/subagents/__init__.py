"""Sub-agents: a task handed to a run of the loop of its own, shown in the tool call of whoever handed it over.

`delegating.py` hands a task over, `voice.py` and `calls.py` show what comes of it, `steps.py` is the list that is shown.
"""

from accord.coder.subagents.delegating import delegate_from

__all__ = ["delegate_from"]
