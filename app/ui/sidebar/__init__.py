"""The sidebar: all chats, which can be searched, put into folders, pinned, renamed, deleted and restored."""
