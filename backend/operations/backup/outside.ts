// What an installation has that no backup of DATA_DIR holds: engines outside, and secrets of the environment.
import type { Secrets, Settings } from "../../settings.ts";
import type { Outside } from "./held.ts";

export function outsideOf(settings: Settings, secrets: Secrets): Outside {
  return {
    engines: named({ PostgreSQL: secrets.databaseUrl, ClickHouse: secrets.clickhouseUrl, VictoriaMetrics: settings.metricsWriteUrl }),
    secrets: named({ MASTER_KEY: secrets.masterKey, JWT_SECRET: secrets.jwtSecret }),
  };
}

function named(values: Readonly<Record<string, unknown>>): string[] {
  return Object.keys(values).filter((name) => values[name]);
}

/** One line each. */
export function outsideLines({ engines, secrets }: Outside): string[] {
  return [
    ...engines.map((name) => `${name} is outside and not part of this: see docs/backup.md`),
    ...secrets.map((name) => `${name} comes from the environment and is not part of this: keep it too`),
  ];
}
