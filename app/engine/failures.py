"""What the engine's errors are called in the status line and below a reply."""

import logging

from app.engine.memory import is_out_of_memory
from app.errors import AppError, ModelTooLarge, first_line

log = logging.getLogger(__name__)


def refusal_of(error: Exception) -> AppError:
    """Why there is no engine in this process."""
    if is_out_of_memory(error):
        return ModelTooLarge(
            "There is not enough memory to start the engine: close other programs, then start Foresight again."
        )
    log.exception("the engine could not start", exc_info=error)
    return AppError(
        f"The engine could not start ({first_line(error)}): set Foresight up again as its README says."
    )


def sentence_of(error: Exception) -> str:
    """An error in words. What nobody foresaw goes to the log with its traceback."""
    if isinstance(error, AppError):
        return str(error)
    if is_out_of_memory(error):
        return str(
            ModelTooLarge(
                "Memory ran out: choose a smaller model, a shorter chat, or close other programs, then try again."
            )
        )
    log.exception("a request failed", exc_info=error)
    return f"Something went wrong inside Foresight ({type(error).__name__}: {error}): please try again."
