"""The MCP servers of a session: connections, tools, resources and prompts.

`McpHost` in `host.py` is the entry point; `McpHooks` is what the session does for its servers. The `mcp`
package is imported in a thread, when the first session with servers starts.

This file imports no module of the package. The session imports `host.py` while the preload thread imports
`server_interface.py`; if the package imported its own modules, the two threads would wait for each other, and
Python would end that with an ImportError.
"""
