// Where the agent looks for its collector, and where hack/fetch-tools.ts puts it.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { CATALOGUE } from "../hack/fetch-tools.ts";
import { cachedPath } from "../hack/tools/obtain.ts";
import { readSettings } from "./settings.ts";

const ENVIRONMENT = {
  BACKEND_URL: "https://b.example",
  CLUSTER_NAME: "c",
  NODE_NAME: "n",
  POD_NAMESPACE: "t",
  POD_UID: "u",
  KUBERNETES_SERVICE_HOST: "10.0.0.1",
};

test.each([
  { identity: "host", name: "otelcol-host" },
  { identity: "cluster", name: "otelcol-contrib" },
] as const)(
  "the $identity agent finds $name in the cache of hack/fetch-tools.ts, by its version and components",
  ({ identity, name: program }) => {
    const cache = mkdtempSync(join(tmpdir(), "atherops-cache-"));
    try {
      const tool = CATALOGUE.find(({ name }) => name === program);
      const kept = cachedPath(tool as NonNullable<typeof tool>, { cache: join(cache, "atherops", "tools") });
      mkdirSync(dirname(kept), { recursive: true });
      writeFileSync(kept, "", { mode: 0o755 });
      const { otelcolPath } = readSettings(identity, { ...ENVIRONMENT, XDG_CACHE_HOME: cache }).settings;
      expect(otelcolPath[0]).toBe(kept);
    } finally {
      rmSync(cache, { recursive: true });
    }
  },
);
