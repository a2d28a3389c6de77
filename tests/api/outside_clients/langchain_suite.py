"""langchain-tests with langchain-openai; OUTSIDE_CLIENTS is the address, the key and the model, one a line."""

import os

from langchain_core.language_models import BaseChatModel
from langchain_openai import ChatOpenAI
from langchain_tests.integration_tests import ChatModelIntegrationTests

url, key, model = os.environ["OUTSIDE_CLIENTS"].splitlines()


class TestChatOpenAI(ChatModelIntegrationTests):
    """All but pictures, sound and files, which Foresight does not read."""

    @property
    def chat_model_class(self) -> type[BaseChatModel]:
        """The client."""
        return ChatOpenAI

    @property
    def chat_model_params(self) -> dict[str, object]:
        """Its options."""
        server = {"model": model, "base_url": url, "api_key": key, "max_retries": 2, "timeout": 120}
        return {**server, "temperature": 0, "max_tokens": 200, "stream_usage": True}

    @property
    def supports_image_inputs(self) -> bool:
        """It reads text alone."""
        return False
