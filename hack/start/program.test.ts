import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { afterEach, expect, test, vi } from "vitest";
import { temporaryFolder } from "../../test/fixtures/processes.ts";
import { checkPorts } from "./listeners.ts";
import { Program } from "./program.ts";

test("reports a program that ends at its start with its own last lines, and none of the previous run", async () => {
  using folder = temporaryFolder();
  const log = join(folder.path, "backend.out");
  writeFileSync(log, "a login of yesterday\n");
  const args = ["--eval", "console.error('the folder is used by process 7'); process.exit(2)"];
  const program = new Program({ name: "backend", args, env: process.env, log, stopping: new AbortController().signal });
  await expect(program.exited()).rejects.toThrow(/^the backend ended with 2:\n {4}the folder is used by process 7$/);
});

afterEach(() => void vi.unstubAllEnvs());

test.each(["8081", ":8080", "127.0.0.1", "127.0.0.1:", "127.0.0.1:80811", "::1:8080", "http://127.0.0.1:8080"])(
  "does not report an address without host and port as in use: %s",
  async (listen) => {
    vi.stubEnv("API_LISTEN", listen);
    await expect(checkPorts()).rejects.toMatchObject({
      message: `API_LISTEN=${listen} (the API) is no address with a port: write it as 127.0.0.1:8080`,
      exitCode: 2,
    });
  },
);

test("does not report an address of another machine as in use", async () => {
  vi.stubEnv("API_LISTEN", "192.0.2.1:8080");
  await expect(checkPorts()).rejects.toThrow("API_LISTEN=192.0.2.1:8080 (the API) cannot be listened at: EADDRNOTAVAIL");
});

test("reports a port in use, with the program that needs it and how to choose another", async () => {
  const holder = createServer().listen(0, "127.0.0.1");
  await once(holder, "listening");
  const listen = `127.0.0.1:${(holder.address() as AddressInfo).port}`;
  vi.stubEnv("API_LISTEN", listen);
  await expect(checkPorts()).rejects.toThrow(
    `port ${listen} (the API) is in use: stop what listens there, or set API_LISTEN=127.0.0.1:<another port>`,
  );
  holder.close();
});
