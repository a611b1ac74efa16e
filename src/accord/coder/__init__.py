"""The coding agent: loop, models, tools, context, MCP, modes. Nothing here is imported before it is used."""
