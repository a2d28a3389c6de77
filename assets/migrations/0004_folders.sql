-- Folders of chats. One stays until it is removed, with chats in it or without.
CREATE TABLE folder (name TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;
INSERT INTO folder (name) SELECT DISTINCT folder FROM chat WHERE folder <> '' AND deleted IS NULL;
CREATE TRIGGER folder_of_new_chat AFTER INSERT ON chat WHEN new.folder <> '' BEGIN
    INSERT OR IGNORE INTO folder (name) VALUES (new.folder);
END;
CREATE TRIGGER folder_of_moved_chat AFTER UPDATE OF folder ON chat WHEN new.folder <> '' BEGIN
    INSERT OR IGNORE INTO folder (name) VALUES (new.folder);
END;
