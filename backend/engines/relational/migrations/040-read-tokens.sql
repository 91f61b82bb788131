-- Tokens that only read, for Grafana and programs. The token itself is signed and not kept: its row says that it is still in force.
-- `created_by` is the e-mail address of whoever made it, as it was then; the token outlives that user.
CREATE TABLE read_tokens (
  id uuid PRIMARY KEY,
  org_id uuid NOT NULL REFERENCES orgs (id),
  name text NOT NULL,
  created_by text NOT NULL,
  created_at timestamptz NOT NULL,
  expires_at timestamptz NOT NULL
);

CREATE INDEX read_tokens_by_org ON read_tokens (org_id, name, id);
