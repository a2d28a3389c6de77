"""The HTTP API of OpenAI, Anthropic and Ollama, by which other programs use the engine on this machine.

`application.py` builds and serves it. Nothing is imported here, so that a command that only reads the key does not
wait for the server's packages."""
