// How the console is served: security headers, caching, and files that do not exist.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { brotliDecompressSync, gunzipSync } from "node:zlib";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { FastifyInstance } from "fastify";
import { createLog } from "../log.ts";
import { closeRoutes, createApp } from "./app.ts";
import { readConsole, registerConsole } from "./console.ts";

let app: FastifyInstance;
const files = readConsole();
beforeAll(async () => {
  app = await createApp({ log: createLog("silent") });
  if (files) registerConsole(app, files, { guards: { user: () => async () => undefined }, hasSingleSignOn: true });
  app.post("/elsewhere", async () => "");
  await closeRoutes(app);
});
afterAll(async () => await app.close());

const get = async (url: string, headers: Record<string, string> = {}) => await app.inject({ url, headers: { host: "a", ...headers } });

test("the policy of the page allows only its own origin, and the page is never cached", async () => {
  const page = await get("/");
  expect(page.statusCode).toBe(200);
  expect(page.headers).toMatchObject({
    "content-type": "text/html; charset=utf-8",
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
  });
  const policy = String(page.headers["content-security-policy"]);
  expect(policy.split("; ")).toEqual(
    expect.arrayContaining(["default-src 'none'", "frame-ancestors 'none'", "require-trusted-types-for 'script'"]),
  );
  expect(policy).not.toMatch(/unsafe|https?:|\*/);
  expect(page.body).not.toMatch(/<script(?![^>]*\ssrc="\/console\/)|<style|\son\w+=|https?:/);
});

test("every file that the page refers to exists, has a hashed name and is cached without expiry", async () => {
  const page = await get("/");
  const named = [...page.body.matchAll(/(?:src|href)="\/console\/([^"]+)"/g)].map(([, name = ""]) => name);
  const scripts = [...(files?.keys() ?? [])].filter((name) => /\.(js|css)$/.test(name));
  expect(named.filter((name) => name !== "icon.svg")).not.toEqual([]);
  expect(scripts.length).toBeGreaterThan(2);
  for (const name of [...named, ...scripts]) {
    const answer = await get(`/console/${name}`);
    expect([name, answer.statusCode]).toEqual([name, 200]);
    const kept = name === "icon.svg" ? "no-cache" : "public, max-age=31536000, immutable";
    expect([name, answer.headers["cache-control"]]).toEqual([name, kept]);
  }
});

test("a browser gets a coding that it accepts", async () => {
  const whole = (await get("/")).rawPayload;
  const br = await get("/", { "accept-encoding": "gzip, deflate, br, zstd" });
  const gz = await get("/", { "accept-encoding": "br;q=0, gzip" });
  expect([br.headers["content-encoding"], gz.headers["content-encoding"]]).toEqual(["br", "gzip"]);
  expect(brotliDecompressSync(br.rawPayload)).toEqual(whole);
  expect(gunzipSync(gz.rawPayload)).toEqual(whole);
  expect(br.headers["vary"]).toBe("accept-encoding");
});

test.each(["/console/nothing.js", "/console/..%2ffiles.json", "/console/files.json", "/console/__proto__", "/console/", "/console"])(
  "%s does not exist",
  async (path) => {
    expect((await get(path)).statusCode).toBe(404);
  },
);

test("other methods are not allowed", async () => {
  const answer = await app.inject({ method: "POST", url: "/", headers: { host: "a" } });
  expect([answer.statusCode, answer.headers["allow"]]).toEqual([405, "GET"]);
});

test("a console that is not built, or only partly, is not served", () => {
  const folder = mkdtempSync(join(tmpdir(), "atherops-test-"));
  try {
    const url = pathToFileURL(`${folder}/`);
    expect(readConsole(url)).toBeUndefined();
    writeFileSync(join(folder, "files.json"), JSON.stringify({ files: [{ name: "index.html", type: "text/html" }] }));
    expect(readConsole(url)).toBeUndefined();
  } finally {
    rmSync(folder, { recursive: true });
  }
});
