"""Supervises intermediate layers, so that a small model learns to copy.

The answer is found in hops of attention. Each token of a source first learns its source's number and the first
token of its sentence. A word of the question attends to the same word in a source and copies both. The answer's
tokens attend to that word of the question and copy the sentence. From the answer's loss alone a small model learns
none of these hops for a long time. The head that finds the same word is then in layer 7 of 8, too late for the last
hop. So three heads are taught where to attend, and two probes read number and first token from hidden states. The
loss of a probe also trains the layers below it. Probes are not part of the model.
"""

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - the usual name
from torch import Tensor, nn
from transformers.models.llama.modeling_llama import rotate_half

from labs.demo_model.branched_rows import TRUNK, UNKNOWN, BranchedBatch

NUM_NUMBERS = 8
SOURCE_DEPTH, QUESTION_DEPTH = 3, 5
"""The layers after which probes read the tokens of the sources, and those of the questions."""
MATCHING, MOVING, COPYING = HEADS = ((4, 0), (5, 2), (6, 1))
"""The layers and numbers of three heads. From the question's word, the first attends to the same word in a source.
From the answer, the second attends to the question's word, and the third to the token that is copied next.

Each head is in a higher layer than the heads whose results it needs."""


class Probe(nn.Module):
    """Predicts a source's number and a sentence's first token from hidden states of this width."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(width)
        self.number = nn.Linear(width, NUM_NUMBERS, bias=False)
        self.first = nn.Linear(width, width, bias=False)

    def forward(self, hidden: Tensor, numbers: Tensor, firsts: Tensor, embedding: Tensor) -> Tensor:
        """Return the sum of both mean cross-entropies. hidden: [tokens, width]; embedding: [vocabulary, width]."""
        read, known = self.norm(hidden), firsts != UNKNOWN
        number_loss = F.cross_entropy(self.number(read).float(), numbers)
        first_loss = F.cross_entropy((self.first(read[known]) @ embedding.T).float(), firsts[known])
        return number_loss + first_loss


class Probes(nn.Module):
    """A probe of the sources' tokens, and a probe of the questions' tokens in a deeper layer."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.source, self.question = Probe(width), Probe(width)

    def forward(self, layers: tuple[Tensor, ...], batch: BranchedBatch, embedding: Tensor) -> Tensor:
        """Return the sum of both probes' losses; `layers` are the hidden states after 0, 1, 2, … layers."""
        total = torch.zeros(())
        is_source = batch.branches == TRUNK
        for probe, depth, here in (
            (self.source, SOURCE_DEPTH, is_source),
            (self.question, QUESTION_DEPTH, ~is_source),
        ):
            read = here & (batch.numbers != UNKNOWN)
            if bool((read & (batch.firsts != UNKNOWN)).any()):
                total = total + probe(layers[depth][read], batch.numbers[read], batch.firsts[read], embedding)
        return total


def attention_loss(model: Any, layers: tuple[Tensor, ...], batch: BranchedBatch) -> Tensor:
    """Return the sum of the mean negative log-attention of three heads to the tokens to which they should attend.

    The first head may attend to the last token of a source's word or, as an induction head, to the next token."""
    if not len(batch.hops):
        return torch.zeros(())
    rows, asked, found, end, numbering = batch.hops.T
    within = end + ((numbering - end) * torch.rand(len(end))).long()
    matching, moving, copying = (log_attention(model, head, layers, batch) for head in HEADS)
    match = torch.logaddexp(matching[rows, asked, found], matching[rows, asked, found + 1])
    moves = [moving[rows, begin, asked] for begin in (end, within, numbering)]
    copier, places = (batch.copied != UNKNOWN).nonzero().T
    copies = copying[copier, places, batch.copied[copier, places]]
    return -(match.mean() + torch.cat(moves).mean() + copies.mean())


def log_attention(
    model: Any, which: tuple[int, int], layers: tuple[Tensor, ...], batch: BranchedBatch
) -> Tensor:
    """Return the logarithms of one head's attention over a Llama's rows: [rows, length, length]."""
    layer, head = which
    hidden, block, config = layers[layer], model.model.layers[layer], model.config
    shared = config.num_attention_heads // config.num_key_value_heads
    cos, sin = model.model.rotary_emb(hidden, batch.positions)
    normed = block.input_layernorm(hidden)
    queries = _of_head(block.self_attn.q_proj, head, config.head_dim, normed)
    keys = _of_head(block.self_attn.k_proj, head // shared, config.head_dim, normed)
    rotated_half: Any = rotate_half  # the library has no types
    queries, keys = (one * cos + rotated_half(one) * sin for one in (queries, keys))
    scores = (queries @ keys.mT).float() * config.head_dim**-0.5
    found: Tensor = scores.masked_fill(~batch.mask[:, 0], -torch.inf).log_softmax(-1)
    return found


def _of_head(projection: nn.Linear, head: int, size: int, hidden: Tensor) -> Tensor:
    return F.linear(hidden, projection.weight[head * size : (head + 1) * size])
