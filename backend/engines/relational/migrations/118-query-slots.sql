-- Which replica uses a slot for queries of an organisation. `owner` is what the slot is for, and the organisation; slots are counted from 1.
CREATE TABLE query_slots (
  owner text NOT NULL,
  slot integer NOT NULL,
  replica uuid NOT NULL,
  PRIMARY KEY (owner, slot)
);
