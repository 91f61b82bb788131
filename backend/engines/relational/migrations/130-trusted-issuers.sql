-- Issuers of OpenID Connect tokens that an organisation trusts. `jwks`: their public keys, given by an administrator, or fetched last at
-- `keys_fetched_at`. `rules`: which claims permit what, as JSON. `version` increases with each change by an administrator, not with a fetch.
CREATE TABLE trusted_issuers (
  id uuid NOT NULL PRIMARY KEY,
  org_id uuid NOT NULL REFERENCES orgs (id),
  name text NOT NULL,
  issuer text NOT NULL,
  audience text NOT NULL,
  jwks text NOT NULL,
  keys_fetched_at timestamptz,
  rules text NOT NULL,
  version integer NOT NULL,
  created_by text NOT NULL,
  created_at timestamptz NOT NULL,
  updated_by text NOT NULL,
  updated_at timestamptz NOT NULL,
  UNIQUE (org_id, name)
);

-- The issuer whose token enrolled the cluster or host: another issuer cannot enrol it again.
ALTER TABLE clusters ADD COLUMN issuer_id uuid REFERENCES trusted_issuers (id) ON DELETE SET NULL;

ALTER TABLE hosts ADD COLUMN issuer_id uuid REFERENCES trusted_issuers (id) ON DELETE SET NULL;

ALTER TABLE hosts ADD COLUMN issuer_subject text;

-- An enrolment with a token of an issuer is stored like that of an install token, so that a lost response can be requested again.
ALTER TABLE install_tokens ADD COLUMN issuer_id uuid REFERENCES trusted_issuers (id) ON DELETE CASCADE;
