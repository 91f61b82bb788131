// `diagnose` of both agents behind an outgoing proxy, in separate processes that load only the agents' modules.
import { execFile } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer as createTlsServer } from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { authority, listening, type OutgoingProxy, outgoingProxy } from "../../upstream/outgoing-proxy.fixture.ts";

let folder: string;
let backend: Awaited<ReturnType<typeof listening>>;
let caFile: string;
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "atherops-proxy-test-"));
  const own = authority(folder, "own");
  caFile = own.caFile;
  backend = await listening(createTlsServer({ key: own.key, cert: own.cert }, (_, response) => void response.end("{}")));
});
afterEach(async () => {
  await backend.close();
  rmSync(folder, { recursive: true });
});

/** Returns the output; other checks may fail here. */
async function diagnose(program: string, proxy: OutgoingProxy): Promise<string> {
  const env = {
    BACKEND_URL: "https://backend.test:8443",
    BACKEND_CA_FILE: caFile,
    HTTPS_PROXY: `http://user:hidden-word@127.0.0.1:${proxy.port}`,
    STATE_DIR: folder,
    CREDENTIALS_FILE: join(folder, "credentials.json"),
    CLUSTER_NAME: "c",
    NODE_NAME: "127.0.0.1",
    POD_NAMESPACE: "n",
    POD_UID: "u",
    KUBERNETES_SERVICE_HOST: "127.0.0.1",
    KUBERNETES_SERVICE_PORT: "1",
    SERVICE_ACCOUNT_DIR: folder,
    OTELCOL_PATH: join(folder, "none"),
    LOG_PATHS: `${folder}/*.log`,
    HEALTH_LISTEN: "127.0.0.1:1",
  };
  const file = fileURLToPath(new URL(`../../bin/${program}.ts`, import.meta.url));
  return new Promise((done) => {
    execFile(process.execPath, [file, "diagnose"], { env }, (_error, stdout, stderr) => done(stdout + stderr));
  });
}

describe.each(["atherops-otel-agent", "atherops-k8s-otel-agent"])("diagnose of %s behind a proxy with a password", (program) => {
  it("reaches the backend as the agent does", async () => {
    const proxy = await outgoingProxy(backend.port);
    try {
      const text = await diagnose(program, proxy);
      expect(text).toMatch(/^ok {4}backend: answers over TLS/m);
      expect(text).not.toContain("hidden-word");
      expect(proxy.asked).toContain("CONNECT backend.test:8443");
      expect(proxy.authorized[0]).toBe(`Basic ${Buffer.from("user:hidden-word").toString("base64")}`);
    } finally {
      await proxy.close();
    }
  });

  it.each([
    ["407 Proxy Authentication Required", /requires credentials/],
    ["403 Forbidden", /allow CONNECT/],
  ])("contains what to do if the proxy returns %s", async (refusal, advice) => {
    const proxy = await outgoingProxy(1, refusal);
    try {
      const text = await diagnose(program, proxy);
      expect(text).toMatch(new RegExp(`^FAIL {2}backend: .*${refusal.slice(0, 3)}`, "m"));
      expect(text).toMatch(advice);
      expect(text).not.toContain("hidden-word");
    } finally {
      await proxy.close();
    }
  });
});
