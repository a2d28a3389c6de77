"""The engine for other programs: OpenAI's HTTP API, on this machine.

`application.py` builds and serves it. Nothing is imported here, so that a command that only reads the key does not
wait for the server's packages."""
