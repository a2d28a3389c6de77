-- Older versions of documents: rows in state 'replaced', which no list shows, so that a replacement can be undone.
ALTER TABLE document ADD COLUMN replaced_by INTEGER REFERENCES document (id) ON DELETE CASCADE; -- NULL: a document
CREATE INDEX document_replaced_by ON document (replaced_by);
