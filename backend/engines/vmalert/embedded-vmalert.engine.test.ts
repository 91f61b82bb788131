import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { pino } from "pino";
import { expect, test } from "vitest";
import { toolPath } from "../../../hack/fetch-tools.ts";
import { temporaryFolder } from "../../../test/fixtures/processes.ts";
import { StartError } from "../../errors.ts";
import { startEvaluator } from "./embedded-vmalert.ts";

test("a port in use by another vmalert stops the start with one sentence that names EVALUATOR_LISTEN", async () => {
  using folder = temporaryFolder();
  const other = createServer().listen(0, "127.0.0.1");
  await once(other, "listening");
  try {
    const { port } = other.address() as AddressInfo;
    const started = startEvaluator({
      candidates: [await toolPath("vmalert")],
      dataDir: folder.path,
      listen: { host: "127.0.0.1", port },
      intervalMs: 1000,
      delayMs: 0,
      passwordFile: undefined,
      metricsQueryUrl: "http://127.0.0.1:1",
      metricsWriteUrl: "http://127.0.0.1:1",
      log: pino({ level: "silent" }),
    });
    await expect(started).rejects.toThrow(StartError);
    await expect(started).rejects.toThrow(`EVALUATOR_LISTEN: cannot listen on 127.0.0.1:${port}: the port is in use`);
  } finally {
    other.close();
  }
});
