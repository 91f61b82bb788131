// Where the agent looks for its collector, and where hack/fetch-tools.ts puts it.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { CATALOGUE } from "../hack/fetch-tools.ts";
import { cachedPath } from "../hack/tools/obtain.ts";
import { readSettings } from "./settings.ts";

test("the collector that hack/fetch-tools.ts built is found in its cache, by its version and components", () => {
  const cache = mkdtempSync(join(tmpdir(), "atherops-cache-"));
  try {
    const tool = CATALOGUE.find(({ name }) => name === "otelcol-contrib");
    const kept = cachedPath(tool as NonNullable<typeof tool>, { cache: join(cache, "atherops", "tools") });
    mkdirSync(dirname(kept), { recursive: true });
    writeFileSync(kept, "", { mode: 0o755 });
    const { otelcolPath } = readSettings("host", { BACKEND_URL: "https://b.example", XDG_CACHE_HOME: cache }).settings;
    expect(otelcolPath).toEqual([kept]);
  } finally {
    rmSync(cache, { recursive: true });
  }
});
