"""langchain-tests with langchain-openai; OUTSIDE_CLIENTS is the address, the key and the model, one a line."""

import os

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_openai import ChatOpenAI
from langchain_tests.integration_tests import ChatModelIntegrationTests

url, key, model_id = os.environ["OUTSIDE_CLIENTS"].splitlines()


class TestChatOpenAI(ChatModelIntegrationTests):
    """All but pictures, sound and files, which Foresight does not read."""

    @property
    def chat_model_class(self) -> type[BaseChatModel]:
        return ChatOpenAI

    @property
    def chat_model_params(self) -> dict[str, object]:
        server = {"model": model_id, "base_url": url, "api_key": key, "max_retries": 2, "timeout": 120}
        return {**server, "temperature": 0, "max_tokens": 200, "stream_usage": True}

    @property
    def supports_image_inputs(self) -> bool:
        return False

    @property
    def supports_json_mode(self) -> bool:
        return True

    @property
    def model_override_value(self) -> str:
        """A model that a single request may name."""
        return model_id

    # What follows needs a model that understands the question. The API's part of it is checked by the other tests:
    # forced calls, calls without arguments, the history of a call and its result, structured output.
    @pytest.mark.xfail(reason="the demo model calls the tool with another number than the question's")
    def test_tool_calling(self, model: BaseChatModel) -> None:
        """A forced call with the question's number."""
        super().test_tool_calling(model)

    @pytest.mark.xfail(reason="the demo model calls the tool with another number than the question's")
    async def test_tool_calling_async(self, model: BaseChatModel) -> None:
        """The same, by the asynchronous client."""
        await super().test_tool_calling_async(model)

    @pytest.mark.xfail(reason="the demo model calls no tool unless it is forced to")
    def test_agent_loop(self, model: BaseChatModel) -> None:
        """A call that is not forced."""
        super().test_agent_loop(model)

    @pytest.mark.xfail(reason="the demo model does not copy Chinese names")
    def test_unicode_tool_call_integration(self, model: BaseChatModel) -> None:
        """A forced call with the question's name."""
        super().test_unicode_tool_call_integration(model)

    @pytest.mark.xfail(reason="the demo model writes JSON, but not with the keys that the question names")
    def test_json_mode(self, model: BaseChatModel) -> None:
        """JSON whose keys the question alone tells."""
        super().test_json_mode(model)
