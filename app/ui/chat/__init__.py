"""The chat's view: the thread, the reply being written, the message box, and the HTML of each."""
