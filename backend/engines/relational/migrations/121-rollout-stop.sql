-- A stage of a cluster's remote configuration is watched until `config_watched_until`: if more of its nodes are unhealthy than when it began, it
-- is stopped, with the reason.
ALTER TABLE clusters ADD COLUMN config_watched_until timestamptz;

ALTER TABLE clusters ADD COLUMN config_unhealthy_before integer NOT NULL DEFAULT 0;

ALTER TABLE clusters ADD COLUMN config_stopped text;
