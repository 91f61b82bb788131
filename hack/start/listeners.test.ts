import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { afterEach, expect, test, vi } from "vitest";
import { checkPorts } from "./listeners.ts";

afterEach(() => void vi.unstubAllEnvs());

test.each(["8081", ":8080", "127.0.0.1", "127.0.0.1:", "127.0.0.1:80811", "::1:8080", "http://127.0.0.1:8080"])(
  "an address without host and port is not taken for a busy one: %s",
  async (listen) => {
    vi.stubEnv("API_LISTEN", listen);
    await expect(checkPorts()).rejects.toMatchObject({
      message: `API_LISTEN=${listen} (the API) is no address with a port: write it as 127.0.0.1:8080`,
      exitCode: 2,
    });
  },
);

test("an address of another machine is not taken for a busy one", async () => {
  vi.stubEnv("API_LISTEN", "192.0.2.1:8080");
  await expect(checkPorts()).rejects.toThrow("API_LISTEN=192.0.2.1:8080 (the API) cannot be listened at: EADDRNOTAVAIL");
});

test("a busy port is reported, with what would listen there and how to choose another", async () => {
  const holder = createServer().listen(0, "127.0.0.1");
  await once(holder, "listening");
  const listen = `127.0.0.1:${(holder.address() as AddressInfo).port}`;
  vi.stubEnv("API_LISTEN", listen);
  await expect(checkPorts()).rejects.toThrow(
    `port ${listen} (the API) is in use: stop what listens there, or set API_LISTEN=127.0.0.1:<another port>`,
  );
  holder.close();
});
