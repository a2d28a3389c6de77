"""Models on servers with an OpenAI-compatible API. The `openai` client is imported at the first request."""

from app.remote.servers import Servers

__all__ = ["Servers"]
