"""The chat's view: the thread, the reply being written, the message box, and what a page sees of them."""
