"""Tools that a model may call: servers of the Model Context Protocol (MCP), and pages of the web."""
