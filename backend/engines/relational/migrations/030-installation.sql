-- Which installation of the agent has the cluster's current key, as it named itself; null: one that did not.
ALTER TABLE clusters ADD COLUMN installation text;
