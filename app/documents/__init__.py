"""Documents: texts that are pasted or read from files, cut into passages that are found by words and by meaning."""

from app.documents.documents import Documents
from app.documents.embedding import NO_EMBEDDER, Embedder
from app.documents.file_import import PENDING_FOLDER, require_file

__all__ = ["NO_EMBEDDER", "PENDING_FOLDER", "Documents", "Embedder", "require_file"]
