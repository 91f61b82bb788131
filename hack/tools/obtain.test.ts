// The order in which sources are tried, and the content of the cache afterwards, with shell scripts as programs and a local server as
// release host.
import { createHash } from "node:crypto";
import { once } from "node:events";
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { obtain, type Locations, type Tool } from "./obtain.ts";

let folder: string;
let locations: Locations;
let lines: string[];
let server: Server;
let downloads: number;
let published: string;
let tool: Tool;

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "atherops-obtain-"));
  mkdirSync(join(folder, "bin"));
  lines = [];
  downloads = 0;
  published = program("1.2.3");
  locations = { cache: join(folder, "cache"), path: join(folder, "bin"), progress: (line) => lines.push(line) };
  server = createServer((request, response) => {
    if (request.url === "/sometool") downloads++;
    response.end(request.url === "/sometool" ? published : createHash("sha256").update(published).digest("hex"));
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  tool = {
    name: "sometool",
    version: "1.2.3",
    alsoNamed: ["sometool-prod"],
    versionArgs: ["--version"],
    release: { url: `${base}/sometool`, checksums: `${base}/sometool.sha256` },
    module: { folder: "no-such-module", package: "none", takes: "no time" },
  };
});
afterEach(() => {
  server.closeAllConnections();
  server.close();
  rmSync(folder, { recursive: true, force: true });
});

describe("obtain", () => {
  it("uses the program on PATH with the pinned version, under each of its names", async () => {
    const onPath = install("sometool-prod", "1.2.3");
    expect(await obtain(tool, locations)).toBe(onPath);
    expect(downloads).toBe(0);
  });

  it.each(["1.2.30", "11.2.3", "1.2.3.1", "1.2"])("ignores %s on PATH", async (version) => {
    install("sometool", version);
    expect(await obtain(tool, locations)).toBe(kept());
  });

  it("ignores a cached program of the same version with other components", async () => {
    await obtain(tool, locations);
    const changed = { ...tool, edition: "5eed" };
    expect(await obtain(changed, locations)).not.toBe(kept());
    expect(downloads).toBe(2);
  });

  it("fetches once, and caches the result", async () => {
    expect(await obtain(tool, locations)).toBe(kept());
    expect(await obtain(tool, locations)).toBe(kept());
    expect(downloads).toBe(1);
    expect(readdirSync(join(kept(), ".."))).toEqual(["sometool"]);
  });

  it("fetches once for two concurrent runs", async () => {
    expect(await Promise.all([obtain(tool, locations), obtain(tool, locations)])).toEqual([kept(), kept()]);
    expect(downloads).toBe(1);
  });

  it("recovers from a run that was killed half-way", async () => {
    mkdirSync(join(kept(), "..", "scratch"), { recursive: true });
    writeFileSync(join(kept(), "..", "scratch", "sometool.new"), "half of it");
    writeFileSync(`${kept()}.lock`, "999999999 1");
    expect(await obtain(tool, locations)).toBe(kept());
    expect(readdirSync(join(kept(), ".."))).toEqual(["sometool"]);
  });

  it("caches no program that reports another version, and reports every way that was tried", async () => {
    published = program("9.9.9");
    const failure = await obtain(tool, locations).catch((error: Error) => error.message);
    expect(failure).toMatch(/cannot get sometool 1\.2\.3/);
    expect(failure).toMatch(/PATH: no sometool/);
    expect(failure).toMatch(/cache: no /);
    expect(failure).toMatch(/release: the result does not run, or is not sometool 1\.2\.3/);
    expect(failure).toMatch(/Go module: /);
    expect(existsSync(kept())).toBe(false);
  });
});

function kept(): string {
  return join(folder, "cache", "sometool", "1.2.3", "sometool");
}

function program(version: string): string {
  return `#!/bin/sh\necho "sometool v${version} (test)"\n`;
}

function install(name: string, version: string): string {
  const file = join(folder, "bin", name);
  writeFileSync(file, program(version));
  chmodSync(file, 0o755);
  return file;
}
