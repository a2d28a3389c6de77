"""What tests write into chats."""

from app.chats.chats import Chats
from app.values.chat import ChatVersion, MessageContent, Provenance, TokenMark
from app.values.messages import Decoding, ModelInfo, Options, Sampling, Split, Statistics

MODEL = ModelInfo("org/model", "demo", "abc123", "LlamaForCausalLM", 135_000_000, 8192, "bfloat16", "cpu")
PROVENANCE = Provenance(
    MODEL,
    Options(
        Sampling(0.7, 40, 0.9, 0.05, 1.1, 2**63 - 1), Decoding("lookahead", 15, 5, 15), 100, True, ("\n\n",)
    ),
    "lookahead",
    "stop_string",
    Statistics(9, 3, 40, 20, 15, 18, 400, 1234, Split(30, 10, 1.25), 0.5, 2.25),
    "0.1.0",
)
MARKS = (
    TokenMark(2, "model", 0),
    TokenMark(5, "window", 1),
    TokenMark(5, "successor", 1),
    TokenMark(9, "history", 2),
)
FINISHED = MessageContent("An answer", "done", "", MARKS, PROVENANCE, 1.5)


def answer(
    chats: Chats, place: ChatVersion, question: str, text: str, parent: int | None = None
) -> tuple[ChatVersion, int]:
    """A whole turn; the reply's id."""
    place, reply = chats.ask(place, question, parent)
    chats.write(reply, MessageContent(text, "done"))
    return place, reply


def texts(chats: Chats, chat: int) -> list[str]:
    """What is shown of a chat."""
    return [message.text for message in chats.thread(chat, 10_000).messages]
