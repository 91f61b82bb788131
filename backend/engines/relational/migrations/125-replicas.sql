-- The running replicas, each renewed every two seconds. `demand` is JSON: what each owner of a shared limit lately asked of this replica.
CREATE TABLE replicas (
  id uuid NOT NULL PRIMARY KEY,
  seen_at timestamptz NOT NULL,
  demand text NOT NULL
);
-- Which replica stores a body of logs or spans, so that no other one stores it too. `body` is a hash of sender, content and day.
CREATE TABLE body_claims (
  body uuid NOT NULL PRIMARY KEY,
  replica uuid NOT NULL,
  claimed_at timestamptz NOT NULL
);
-- Failed logins of an account from a network, by a hash of both.
CREATE TABLE login_failures (
  pair text NOT NULL PRIMARY KEY,
  failures integer NOT NULL,
  failed_at timestamptz NOT NULL
);
-- HyperLogLog registers of the active series of an organisation, as one replica counts them in one period of half an hour.
CREATE TABLE series_sketches (
  org_id uuid NOT NULL,
  replica uuid NOT NULL,
  period integer NOT NULL,
  registers text NOT NULL,
  changed_at timestamptz NOT NULL,
  PRIMARY KEY (org_id, replica)
);
