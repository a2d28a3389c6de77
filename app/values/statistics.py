"""Statistics of a reply: tokens, steps, rows and times."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Split:
    """Rows of the newest step's draft tree and window, and its cost relative to a plain step (0: not measured)."""

    tree: int = 1
    window: int = 0
    cost: float = 0.0


@dataclass(frozen=True, slots=True)
class Statistics:
    """Running numbers of one reply. The prefill's first token counts in neither tokens nor steps."""

    prompt_tokens: int = 0
    reused_tokens: int = 0
    tokens: int = 0
    steps: int = 0
    hits: int = 0
    covered: int = 0
    rows: int = 0
    pool_size: int = 0
    split: Split = field(default_factory=Split)
    time_to_first_token: float = 0.0
    seconds: float = 0.0

    @property
    def tokens_per_step(self) -> float:
        """Committed tokens per forward pass; exactly 1.0 for plain decoding, 0.0 before the first step."""
        return self.tokens / self.steps if self.steps else 0.0

    @property
    def hit_rate(self) -> float:
        """Share of steps in which at least one drafted token was accepted."""
        return self.hits / self.steps if self.steps else 0.0

    @property
    def coverage(self) -> float:
        """Share of steps for which the pool had any draft."""
        return self.covered / self.steps if self.steps else 0.0

    @property
    def rows_per_step(self) -> float:
        """Mean rows of a block."""
        return self.rows / self.steps if self.steps else 0.0

    @property
    def tokens_per_second(self) -> float:
        """Speed of decoding, prefill excluded."""
        return self.tokens / self.seconds if self.seconds else 0.0
