-- Counts what is erased: a backup with a smaller count still has it. See app/database/backups.py.
CREATE TABLE erasures (count INTEGER NOT NULL) STRICT;
INSERT INTO erasures (count) VALUES (0);
CREATE TRIGGER chat_erased AFTER DELETE ON chat BEGIN
    UPDATE erasures SET count = count + 1;
END;
CREATE TRIGGER message_erased AFTER DELETE ON message BEGIN
    UPDATE erasures SET count = count + 1;
END;
CREATE TRIGGER document_erased AFTER DELETE ON document BEGIN
    UPDATE erasures SET count = count + 1;
END;
CREATE TRIGGER document_text_erased AFTER DELETE ON document_text BEGIN
    UPDATE erasures SET count = count + 1;
END;
