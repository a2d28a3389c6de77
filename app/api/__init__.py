"""The engine for other programs: OpenAI's HTTP API, on this machine.

`application.build_api` makes it, `serving.RunningApi` serves it. Nothing is imported here, so that a command which
reads the key alone does not wait for the server's packages."""
