"""The terminal client, `accord chat`: Textual on `accord.client`. All it knows of a session it reads from the client's state.

`app.py` is the app; on its `desk.py` the sessions lie in `tabs.py`, and `attention.py` tells which of them wants the user;
`sessionview.py` is one session on the screen, and `showing.py` puts there what happens in it; `conversation.py` connects it (with what `offer.py` says), prompts it and starts it again, and knows the screen only by the contract in `stage.py`. New things to do are entries in `actions.py`.

`transcript/` is the conversation: a `Follower` makes items of the entries of a session, a `Sheet` keeps them and the lines of their parts (heights
are guessed until they are needed), a `Paper` draws those on the screen, and the `Transcript` is one to mark, unfold and copy from. `parts/` is what items are drawn of. `prompting/` is where the user writes, `dialogs/` what they are asked,
`asking.py` brings the questions of the client there, `signing.py` the one how to sign in (`outside.py` runs a program in place of the screen). `lists/` are the lists to choose from on a screen of their own: `pickers.py` (what an
agent lets one set), `agents.py`, `stored/` (sessions there were), `settings/` (the user's own, and their file); `copying.py` takes something
along, `wire/` shows what crosses the connection. `start.py`, `draft.py`, `palette.py` and `status.py` are small and shared.

Nothing that is imported before the first paint may import `accord.client`: `conversation.py` and what it needs comes later, in a thread.
"""
