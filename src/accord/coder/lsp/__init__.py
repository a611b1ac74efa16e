"""Errors from language servers after an edit. Imported on first use: only if the config has `lsp`."""
