"""The HTTP APIs of OpenAI, Anthropic and Ollama, through which other programs use the engine on this machine.

`application.py` builds and serves them. Nothing is imported here, so that a command that only reads the key does
not wait for the server's packages."""
