// How the console is served: security headers, caching, and files that do not exist.
import { createHash } from "node:crypto";
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

test("the policy of the page allows only its own origin, and the inline scripts and styles of the build", async () => {
  const page = await get("/");
  expect(page.statusCode).toBe(200);
  expect(page.headers).toMatchObject({ "content-type": "text/html; charset=utf-8", "x-content-type-options": "nosniff" });
  const policy = String(page.headers["content-security-policy"]);
  expect(policy.split("; ")).toEqual(
    expect.arrayContaining(["default-src 'none'", "frame-ancestors 'none'", "require-trusted-types-for 'script'"]),
  );
  expect(policy).not.toMatch(/unsafe|https?:|\*/);
  for (const element of ["script", "style"]) {
    const texts = [...page.body.matchAll(new RegExp(`<${element}[^>]*>(.*?)</${element}>`, "gs"))].map(([, text = ""]) => text);
    const hashes = texts.map((text) => ` 'sha256-${createHash("sha256").update(text).digest("base64")}'`);
    expect(hashes).not.toEqual([]);
    expect(policy).toContain(`; ${element}-src 'self'${hashes.join("")};`);
  }
  const markup = page.body.replaceAll(/(?<=<(script|style)[^>]*>).*?(?=<\/\1>)/gs, "");
  expect(markup).not.toMatch(/\son\w+=|\sstyle=|https?:/);
});

test("a browser that has the page gets it again only if it has changed", async () => {
  const page = await get("/", { "accept-encoding": "br" });
  expect(page.headers["cache-control"]).toBe("no-cache");
  const etag = String(page.headers["etag"]);
  const known = await get("/", { "accept-encoding": "gzip", "if-none-match": etag });
  expect([known.statusCode, known.body, known.headers["etag"], known.headers["cache-control"]]).toEqual([304, "", etag, "no-cache"]);
  expect(known.headers["content-security-policy"]).toBe(page.headers["content-security-policy"]);
  expect((await get("/", { "if-none-match": 'W/"other"' })).statusCode).toBe(200);
});

test("every file that the page refers to exists, has a hashed name and is cached without expiry, and none contains what is inline", async () => {
  const page = await get("/");
  const named = [...page.body.matchAll(/"\/console\/([^"]+\.\w{2,3})"/g)].map(([, name = ""]) => name);
  const scripts = [...(files?.keys() ?? [])].filter((name) => /\.(js|css)$/.test(name));
  expect(named.filter((name) => name.startsWith("all-screens-"))).toHaveLength(1);
  expect(scripts.length).toBeGreaterThan(2);
  for (const name of [...named, ...scripts]) {
    const answer = await get(`/console/${name}`);
    expect([name, answer.statusCode]).toEqual([name, 200]);
    const kept = name === "icon.svg" ? "no-cache" : "public, max-age=31536000, immutable";
    expect([name, answer.headers["cache-control"]]).toEqual([name, kept]);
    const imported = [...answer.body.matchAll(/from"\/console\/([^"]+)"/g)].map(([, file = ""]) => file);
    expect([name, imported.filter((file) => !files?.has(file))]).toEqual([name, []]);
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
