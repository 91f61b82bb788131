// Lets the real collector validate the configurations that the agent renders, for each kind of agent and for operators' overlays.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { toolPath } from "../../../hack/fetch-tools.ts";
import { CASES, HOST, OVERLAYS, render } from "./render.fixture.ts";
import { validateCollectorConfig } from "../supervision/config-files.ts";

let folder: string;
let program: string;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "atherops-render-"));
  program = await toolPath("otelcol-contrib");
});
afterAll(() => rmSync(folder, { recursive: true }));

/** Validates with the collector; state and service account are folders of the test. */
function validate(yaml: string): Promise<void> {
  const account = join(folder, "account");
  mkdirSync(account, { recursive: true });
  for (const name of ["ca.crt", "token"]) writeFileSync(join(account, name), "");
  const file = join(folder, "config.yaml");
  writeFileSync(
    file,
    yaml
      .replaceAll("/var/lib/state", join(folder, "state"))
      .replaceAll("/var/run/secrets/kubernetes.io/serviceaccount", account)
      .replaceAll("/hostfs", "/"),
  );
  return validateCollectorConfig(program, file, {
    env: { KUBERNETES_SERVICE_HOST: "127.0.0.1", KUBERNETES_SERVICE_PORT: "1" },
    memoryMib: 400,
  });
}

describe("the collector", () => {
  test.each(CASES)("accepts the configuration for %s", async (_name, identity, env) => {
    // kubeletstats reads the pod's own token when it is made, from a path that exists in pods only; the end-to-end tests run it.
    const overlay = identity === "cluster" && env["SIGNALS"] === undefined ? "receivers: {kubeletstats: null}" : undefined;
    await expect(validate(render(folder, identity, env, overlay))).resolves.toBeUndefined();
  });

  test.each(Object.entries(OVERLAYS))("accepts an overlay that %s", async (_what, overlay) => {
    await expect(validate(render(folder, "host", HOST, overlay))).resolves.toBeUndefined();
  });
});
