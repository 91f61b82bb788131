import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pino } from "pino";
import { expect, test } from "vitest";
import { readSettings } from "../settings.ts";
import { startPods } from "./start-parts.ts";

test("without the kubeconfig for looking up pods, sends no logs, because policies could not be applied", async () => {
  const folder = mkdtempSync(join(tmpdir(), "atherops-test-"));
  await using started = new AsyncDisposableStack();
  started.defer(() => rmSync(folder, { recursive: true }));
  for (const file of ["token", "ca.crt"]) writeFileSync(join(folder, file), "");
  const start = async (env: NodeJS.ProcessEnv): Promise<boolean | undefined> => {
    const { settings } = readSettings("cluster", {
      BACKEND_URL: "https://b.example",
      CLUSTER_NAME: "north",
      NODE_NAME: "node-1",
      POD_NAMESPACE: "telemetry",
      POD_UID: "8a4f",
      KUBERNETES_SERVICE_HOST: "127.0.0.1",
      KUBERNETES_SERVICE_PORT: "1",
      SERVICE_ACCOUNT_DIR: folder,
      STATE_DIR: join(folder, "missing"),
      ...env,
    });
    return (await startPods(settings, pino({ level: "silent" }), started))?.usesRelay;
  };
  expect(await start({})).toBe(false);
  await expect(start({ LOG_POLICIES: "true" })).rejects.toThrow(/log policies need the kubeconfig/);
});
