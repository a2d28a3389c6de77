"""A request's texts as the tokens of one loaded model, made on any thread."""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.engine.text.prompt import Fill, PromptTokenizer
from app.engine.text.sandbox import fill_here
from app.errors import BadOption
from app.values.messages import Request

if TYPE_CHECKING:
    from app.engine.loading.loading import LoadedModel
    from app.engine.text.reader import CachedTokenReader

CHARACTERS_PER_TOKEN = 16
"""Far more than a token of any text has on average: so much of a text is tokenised to have a context's tokens."""


@dataclass(frozen=True, slots=True)
class RequestTokens:
    """The prompt, what it has begun of the reply, and the texts to draft from. `made_by` is who made them."""

    made_by: "RequestTokenizer"
    prompt: list[int]
    begun: list[int]
    documents: tuple[tuple[int, ...], ...] = ()
    prediction: tuple[int, ...] = ()

    def followed_by(self, written: Sequence[int]) -> list[int]:
        """The prompt and tokens of a reply. Raises BadOption for one that the model has no weights for."""
        self.made_by.check_vocabulary(written)
        return [*self.prompt, *written]


class RequestTokenizer:
    """Makes requests tokens. It has a tokenizer of its own, which nobody changes, so that threads can share it."""

    def __init__(self, loaded: "LoadedModel", fill: Fill = fill_here) -> None:
        """To be made by the thread that uses the model."""
        own = deepcopy(loaded.tokenizer)
        own("")  # switches off what its file may say of truncation and padding
        self._name, self._context, self._vocabulary = loaded.info.name, loaded.info.context, loaded.vocabulary
        self._prompts = PromptTokenizer(own, self._context, fill)

    def tokens(self, request: Request) -> RequestTokens:
        """Its tokens. Raises PromptTooLong, BadOption."""
        prompt = self._prompts.ids(request.prompt, request.tools)
        self.check_vocabulary(prompt)
        begun = self._prompts.begun(request.prompt)
        *documents, prediction = map(self._drafted, (*request.documents, request.prediction))
        return RequestTokens(self, prompt, begun, tuple(documents), prediction)

    def check_vocabulary(self, ids: Sequence[int]) -> None:
        """Raise BadOption unless there is an embedding for each: on a card, another would end all work there."""
        if (largest := max(ids, default=0)) >= self._vocabulary:
            raise BadOption(
                f"The tokenizer and the weights of {self._name} do not fit each other (token {largest:,} of "
                f"{self._vocabulary:,}): choose another model, or download it again."
            )

    def reader(self) -> "CachedTokenReader":
        """Counts and shows tokens."""
        return self._prompts.reader()

    def _drafted(self, text: str) -> tuple[int, ...]:
        """A text to draft from: without tokens that the model cannot read, and no longer than a reply can be."""
        written = self._prompts.written(text[: self._context * CHARACTERS_PER_TOKEN]) if text else []
        return tuple(token for token in written[: self._context] if token < self._vocabulary)
