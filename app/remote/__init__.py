"""Models on other servers: any that speaks OpenAI's API. The `openai` client is imported when one is asked."""

from app.remote.servers import Servers

__all__ = ["Servers"]
