"""The prompt box: editor, history, completion, attachments and the queue of prompts."""
