-- Remote configuration of a cluster's agents: `config_percent` of the nodes use it, the others the configuration before.
ALTER TABLE clusters ADD COLUMN config jsonb NOT NULL DEFAULT '{}';

ALTER TABLE clusters ADD COLUMN config_version integer NOT NULL DEFAULT 0;

ALTER TABLE clusters ADD COLUMN config_percent integer NOT NULL DEFAULT 100;

ALTER TABLE clusters ADD COLUMN previous_config jsonb NOT NULL DEFAULT '{}';

ALTER TABLE clusters ADD COLUMN previous_version integer NOT NULL DEFAULT 0;

-- What the node reports: the version in force, and why a newer one is not.
ALTER TABLE cluster_nodes ADD COLUMN config_in_force text;

ALTER TABLE cluster_nodes ADD COLUMN config_error text;
