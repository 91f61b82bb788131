// Downloads from a real HTTP server on loopback that serves a release as the projects do, or misbehaves.
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type RequestListener, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { downloadRelease } from "./release.ts";

const PROGRAM = "#!/bin/sh\necho tool version 1.2.3\n";

let folder: string;
let target: string;
let archive: Buffer;
let answer: RequestListener;
let server: Server;
let base: string;
let transfers: number;

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "atherops-release-"));
  target = join(folder, "tool.new");
  archive = makeArchive();
  transfers = 0;
  server = createServer((request, response) => {
    if (request.url === "/tool.tar.gz") transfers++;
    answer(request, response);
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  serve({ "/tool.tar.gz": archive, "/sums": `${"0".repeat(64)}  other.tar.gz\n${sha256(archive)}  tool.tar.gz\n` });
});

afterEach(() => {
  server.closeAllConnections();
  server.close();
  rmSync(folder, { recursive: true, force: true });
});

describe("downloadRelease", () => {
  it("unpacks the named program of an archive that matches the release's checksum", async () => {
    await fetchTool();
    expect(readFileSync(target, "utf8")).toBe(PROGRAM);
  });

  it("accepts a checksum file with the hash only, and a program that is not packed", async () => {
    serve({ "/tool": PROGRAM, "/tool.sha256": sha256(PROGRAM) });
    await downloadRelease({ url: `${base}/tool`, checksums: `${base}/tool.sha256` }, folder, target, () => {});
    expect(readFileSync(target, "utf8")).toBe(PROGRAM);
  });

  it("follows a redirect, as release hosts answer", async () => {
    const plain = answer;
    answer = (request, response) =>
      request.url === "/tool.tar.gz" ? response.writeHead(302, { location: "/stored/tool" }).end() : plain(request, response);
    const stored = answer;
    answer = (request, response) => (request.url === "/stored/tool" ? response.end(archive) : stored(request, response));
    await fetchTool();
    expect(readFileSync(target, "utf8")).toBe(PROGRAM);
  });

  it("rejects an archive with another checksum and removes it", async () => {
    serve({ "/tool.tar.gz": archive, "/sums": `${"a".repeat(64)}  tool.tar.gz\n` });
    await expect(fetchTool()).rejects.toThrow(/SHA-256 [0-9a-f]{64}, but the expected one is a{64}; it is not used/);
    expect(existsSync(target)).toBe(false);
    expect(existsSync(join(folder, "tool.tar.gz"))).toBe(false);
  });

  it("prefers a pinned SHA-256 to the release's own", async () => {
    const release = { url: `${base}/tool.tar.gz`, checksums: `${base}/sums`, member: "inside/tool", sha256: "b".repeat(64) };
    await expect(downloadRelease(release, folder, target, () => {})).rejects.toThrow(/not used/);
  });

  it("rejects a checksum file without the archive's name, before it downloads anything", async () => {
    serve({ "/tool.tar.gz": archive, "/sums": `${sha256(archive)}  tool_windows.zip\n` });
    await expect(fetchTool()).rejects.toThrow(/has no SHA-256 of tool\.tar\.gz/);
    expect(transfers).toBe(0);
  });

  it("retries an interrupted download once", async () => {
    const whole = answer;
    answer = (request, response) => (transfers === 1 && request.url === "/tool.tar.gz" ? cut(response) : whole(request, response));
    await fetchTool();
    expect(readFileSync(target, "utf8")).toBe(PROGRAM);
    expect(transfers).toBe(2);
  });

  it("gives up after a second interrupted download, and reports it", async () => {
    const whole = answer;
    answer = (request, response) => (request.url === "/tool.tar.gz" ? cut(response) : whole(request, response));
    await expect(fetchTool()).rejects.toThrow(/the transfer broke off/);
    expect(existsSync(target)).toBe(false);
  });

  it("reports the address and status of a 404", async () => {
    serve({ "/sums": `${sha256(archive)}  tool.tar.gz\n` });
    await expect(fetchTool()).rejects.toThrow(`${base}/tool.tar.gz answered 404`);
  });

  it("reports an unreachable host", async () => {
    server.close();
    await once(server, "close");
    await expect(fetchTool()).rejects.toThrow(/127\.0\.0\.1:\d+ cannot be reached \(ECONNREFUSED\)/);
  });
});

function fetchTool(): Promise<void> {
  return downloadRelease({ url: `${base}/tool.tar.gz`, checksums: `${base}/sums`, member: "inside/tool" }, folder, target, () => {});
}

function serve(files: Record<string, string | Buffer>): void {
  answer = (request, response) => {
    const body = files[request.url ?? ""];
    if (body === undefined) response.writeHead(404).end();
    else response.end(body);
  };
}

/** Promises the whole archive, sends half of it, and closes the connection. */
function cut(response: Parameters<RequestListener>[1]): void {
  response.writeHead(200, { "content-length": archive.length });
  response.write(archive.subarray(0, archive.length / 2), () => response.destroy());
}

function makeArchive(): Buffer {
  const source = join(folder, "source");
  mkdirSync(join(source, "inside"), { recursive: true });
  writeFileSync(join(source, "inside", "tool"), PROGRAM);
  writeFileSync(join(source, "inside", "README"), "not wanted");
  return execFileSync("tar", ["-czf", "-", "-C", source, "inside"]);
}

function sha256(content: string | Buffer): string {
  return createHash("sha256").update(content).digest("hex");
}
