"""The sidebar: all chats, found by words, in folders, pinned, renamed, deleted and brought back."""
