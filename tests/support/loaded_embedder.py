"""A sentence model that embeds on the calling thread, and ways to rank the candidates of a search."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path

from app.documents.embedding import Vectors
from app.documents.hybrid_search import Candidate
from app.values.messages import ModelFolder

Way = Callable[[Sequence[Candidate]], list[Candidate]]


def _by_words(found: Sequence[Candidate]) -> list[Candidate]:
    return sorted((one for one in found if one.bm25_rank), key=lambda one: one.bm25_rank)


def _by_meaning(found: Sequence[Candidate]) -> list[Candidate]:
    return sorted((one for one in found if one.similarity_rank), key=lambda one: one.similarity_rank)


WAYS: dict[str, Way] = {"words (BM25)": _by_words, "meaning (vectors)": _by_meaning, "both": list}


class LoadedEmbedder:
    """Embeds texts at once, on the thread that calls it."""

    def __init__(self, folder: Path) -> None:
        from app.engine.embedding.embedder import load_sentence_model

        self.model = folder.name
        self._model = load_sentence_model(ModelFolder(folder, name=folder.name), "cpu")

    def embed(self, texts: Sequence[str]) -> Future[Vectors]:
        answer: Future[Vectors] = Future()
        answer.set_result(self._model.embed(texts))
        return answer
