-- Invitations: each allows one person, who has the link, to choose a password and become a user with this address and role. `token_hash` is
-- the SHA-256 of the secret in the link. An address has at most one invitation. An invitation ends with the user who created it.
CREATE TABLE invitations (
  id uuid NOT NULL PRIMARY KEY,
  org_id uuid NOT NULL REFERENCES orgs (id),
  token_hash text NOT NULL UNIQUE,
  email text NOT NULL,
  role text NOT NULL CHECK (role IN ('viewer', 'admin', 'operator')),
  created_by uuid NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  created_at timestamptz NOT NULL,
  expires_at timestamptz NOT NULL,
  UNIQUE (org_id, email)
);

CREATE INDEX invitations_by_creator ON invitations (created_by);
