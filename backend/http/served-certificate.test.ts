import { once } from "node:events";
import { mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:https";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { connect } from "node:tls";
import { afterEach, beforeEach, expect, test } from "vitest";
import { makeCertificate } from "../../test/fixtures/certificate.ts";
import { temporaryFolder } from "../../test/fixtures/processes.ts";
import { createLog } from "../log.ts";
import { ServedCertificate } from "./listeners.ts";

/** The machine may be busy with other tests. */
const PATIENTLY = { timeout: 30_000 };

let folder: ReturnType<typeof temporaryFolder>;
let server: Server;
let certificate: ServedCertificate;
let logged: string[];

beforeEach(() => {
  folder = temporaryFolder();
  logged = [];
});
afterEach(() => {
  certificate[Symbol.dispose]();
  server.close();
  folder[Symbol.dispose]();
});

const path = (...names: string[]) => join(folder.path, ...names);

/** Like a Secret that kubelet mounts: the files are links through `..data`, which is replaced atomically. */
function publish(version: string, make: (certFile: string, keyFile: string) => void): void {
  mkdirSync(path(version));
  make(path(version, "tls.crt"), path(version, "tls.key"));
  symlinkSync(version, path("..data_tmp"));
  renameSync(path("..data_tmp"), path("..data"));
}

async function serving(now?: () => number): Promise<void> {
  for (const name of ["tls.crt", "tls.key"]) symlinkSync(join("..data", name), path(name));
  const log = createLog("info", "test", { write: (line) => void logged.push(line) });
  certificate = new ServedCertificate({ certFile: path("tls.crt"), keyFile: path("tls.key") }, { log, checkEveryMs: 20, now });
  server = createServer(certificate.pair);
  certificate.watch(server);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
}

async function servedName(): Promise<string | undefined> {
  const socket = connect({ port: (server.address() as AddressInfo).port, host: "127.0.0.1", rejectUnauthorized: false });
  await once(socket, "secureConnect");
  const name = socket.getPeerCertificate().subject.CN;
  socket.destroy();
  return String(name);
}

test("serves a renewed certificate without a restart when the mounted Secret changes", async () => {
  publish("first", (certFile, keyFile) => makeCertificate(certFile, keyFile, "first"));
  await serving();
  expect(await servedName()).toBe("first");
  publish("second", (certFile, keyFile) => makeCertificate(certFile, keyFile, "second"));
  await expect.poll(servedName, PATIENTLY).toBe("second");
});

test("logs a new pair that does not match once, and keeps the old one until a matching pair follows", async () => {
  publish("first", (certFile, keyFile) => makeCertificate(certFile, keyFile, "first"));
  await serving();
  publish("broken", (certFile, keyFile) => {
    makeCertificate(certFile, path("other.key"), "broken");
    makeCertificate(path("other.crt"), keyFile, "other");
  });
  const countLines = () => logged.filter((line) => line.includes("tls.reload_failed")).length;
  await expect.poll(countLines, PATIENTLY).toBe(1);
  expect(await servedName()).toBe("first");
  rmSync(path("broken", "tls.crt"));
  writeFileSync(path("broken", "tls.crt"), "no certificate");
  publish("second", (certFile, keyFile) => makeCertificate(certFile, keyFile, "second"));
  await expect.poll(servedName, PATIENTLY).toBe("second");
  expect(countLines()).toBe(1);
});

test("logs a certificate that expires within 14 days once a day", async () => {
  let now = Date.now();
  publish("first", (certFile, keyFile) => makeCertificate(certFile, keyFile, "first", 30));
  await serving(() => now);
  const countLines = () => logged.filter((line) => line.includes("tls.certificate_expires_soon")).length;
  expect(countLines()).toBe(0);
  now += 17 * 86_400_000;
  await expect.poll(countLines, PATIENTLY).toBe(1);
  now += 86_400_000;
  await expect.poll(countLines, PATIENTLY).toBe(2);
});
