"""The terminal client, `accord chat`: Textual on `accord.client`. All it knows of a session it reads from the client's state.

`app.py` is the app, which holds sessions; `sessionview.py` is one session on the screen; `conversation.py` connects it (with what `offer.py`
says), prompts it and starts it again, and knows the screen only by the contract in `stage.py`. New things to do are entries in `actions.py`.

`transcript/` is the conversation: items for the entries of a session, a layout that guesses heights until they are needed, and a view that
draws the lines on the screen. `parts/` is what items are drawn of. `prompting/` is where the user writes, `dialogs/` what they are asked,
`asking.py` brings the questions of the client there. `start.py`, `draft.py`, `palette.py` and `status.py` are small and shared.

Nothing that is imported before the first paint may import `accord.client`: `conversation.py` and what it needs comes later, in a thread.
"""
