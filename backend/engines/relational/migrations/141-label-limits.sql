-- What a read token or a user may see within its organisation: values of labels, as JSON (backend/admission/limited-labels.ts); null: all.
ALTER TABLE read_tokens ADD COLUMN label_limits text;

ALTER TABLE users ADD COLUMN label_limits text;

ALTER TABLE invitations ADD COLUMN label_limits text;
