"""The terminal client, `accord chat`: Textual on top of `accord.client`.

| files | job |
|---|---|
| `chat_app`, `actions`, `theme` | the app, the table of actions, the colors |
| `session_tabs`, `session_view`, `session_panels` | the tabs, one session, the lines around it |
| `chat_session` | connects a session, prompts it, restarts it; knows the screen only as a `SessionDisplay` |
| `transcript/`, `parts/` | the scrolling transcript, and the parts that its items are drawn of |
| `prompt/` | the prompt box: editor, completion, attachments, queue |
| `dialog`, `question_dialogs` | questions to the user |
| `list_screen` and the other screens | lists of models, options, settings, agents, sessions; the wire view |

Files that are loaded before the first paint must not import `accord.client`; a thread imports it later.
"""
