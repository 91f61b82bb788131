import { afterEach, describe, expect, it } from "vitest";
import { accept, closeAll, post, startBoth } from "./proxy.fixture.ts";

afterEach(closeAll);

describe("an outage", () => {
  it("is logged at its start and its end, not for each request", async () => {
    let nowMs = 0;
    const { backend, proxy } = await startBoth((_, response) => response.writeHead(500).end(), { nowMs: () => nowMs });
    for (let request = 0; request < 5; request++) await post(proxy, "/v1/logs");
    nowMs = 90_000;
    backend.answer = accept;
    for (let request = 0; request < 3; request++) await post(proxy, "/v1/logs");
    const lines = proxy
      .logged()
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as { msg: string; retried: number });
    expect(lines.map(({ msg }) => msg)).toEqual([
      expect.stringMatching(/logs are not delivered.*500/),
      "recovered: logs are delivered again after 90 s",
    ]);
    expect(lines[1]?.retried).toBe(5);
    expect(proxy.status().logs).toMatchObject({
      accepted: 3,
      retried: 5,
      refused: 0,
      failingSince: null,
      lastSuccess: "1970-01-01T00:01:30.000Z",
    });
  });
});
