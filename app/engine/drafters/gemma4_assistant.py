"""Runs an assistant of Gemma 4: a small draft model whose layers attend to the keys and values of its target. The
target is the model that checks the drafts.

An assistant reads only the newest token: its embedding, and the target's state one token earlier.

    text             A B C      and guesses, d e
    token                C      d             e
    state                B'     the assistant's own output after C, and after d
    attends to       A B        A B           A B
    predicts after   A B C      A B C d       A B C d e

Guesses have the position of C, too, as in transformers (`SinglePositionMultiTokenCandidateGenerator`).
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from app.engine.runner.hidden_states import HiddenStates


class Assistant:
    """transformers' model of an assistant, and the target's parts that it uses."""

    def __init__(self, model: PreTrainedModel, embed_tokens: nn.Module, layers: Mapping[str, int]) -> None:
        """Take the target's embedding. `layers` maps a kind of layers to the layer of the target that they read."""
        self._model, self._embed_tokens, self._layers = model, embed_tokens, layers
        # In transformers, sliding layers of assistants see one key more than those of other models.
        self._reach: int = model.config.get_text_config().sliding_window + 1

    def output(self, token: int, state: Tensor, target: HiddenStates, length: int) -> tuple[Tensor, Tensor]:
        """Compute logits [vocab] after a token, and the state [1, 1, width] that the next guess reads.

        Attends to the target's first `length` tokens."""
        cut = {"sliding_attention": max(length - self._reach, 0)}
        return self._run(token, state, target, length, cut)

    @torch.inference_mode()
    def expected(self, text: Sequence[int], target: HiddenStates) -> Tensor:
        # Uses transformers' eager attention with all keys and a mask; `output` leaves out distant keys instead.
        ours, before = self._model.config._attn_implementation, len(text) - 1
        self._model.set_attn_implementation("eager")
        try:
            return self._run(text[-1], target.rows(before - 1, before), target, before, {})[0][None]
        finally:
            self._model.set_attn_implementation(ours)

    def _run(
        self, token: int, state: Tensor, target: HiddenStates, length: int, cut: Mapping[str, int]
    ) -> tuple[Tensor, Tensor]:
        embedded = self._embed_tokens(torch.tensor([[token]], device=state.device))
        found = self._model(
            inputs_embeds=torch.cat([embedded, state], dim=-1),
            position_ids=torch.tensor([[length]], device=state.device),
            shared_kv_states={
                kind: target.keys_and_values(layer, cut.get(kind, 0), length)
                for kind, layer in self._layers.items()
            },
        )
        return found.logits[0, -1], found.last_hidden_state


class AssistantReader:
    """Computes draft logits after a text that the target has committed, and after guesses that follow this text."""

    def __init__(self, assistant: Assistant, target: HiddenStates, context: int, vocabulary: int) -> None:
        self.context, self.vocabulary = context, vocabulary
        self._assistant, self._target = assistant, target
        self._length = 0  # how many of the target's tokens the newest call attended to
        self._states: list[Tensor] = []  # outputs after the next token and after each guess

    @torch.inference_mode()
    def read(self, tokens: Sequence[int], known: int) -> Tensor:
        """Compute logits [vocab] as other readers do; returns an empty tensor if there are no keys to attend to."""
        length = min(len(self._target), len(tokens) - 1)
        logits = torch.empty(0)
        if not length:
            return logits
        del self._states[max(known - length, 0) if length == self._length else 0 :]
        self._length = length
        for token in tokens[length + len(self._states) :]:
            state = self._states[-1] if self._states else self._target.rows(length - 1, length)
            logits, state = self._assistant.output(token, state, self._target, length)
            self._states.append(state)
        return logits

    def forget(self) -> None:
        """Drop the outputs of the newest call."""
        self._states.clear()
