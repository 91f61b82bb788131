// Downloads a program from its project's release, and checks the archive against the release's checksum file, or against a SHA-256 pinned in
// this repository. Invariant: an unchecked archive is never unpacked. Only tested with a local server (release.test.ts), because the real hosts
// could not be reached during development; the file names are from the projects' documentation.
import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { createReadStream, createWriteStream } from "node:fs";
import { rename, rm } from "node:fs/promises";
import { basename, join } from "node:path";
import { Readable, Transform } from "node:stream";
import { pipeline } from "node:stream/promises";
import { promisify } from "node:util";
import { EnvHttpProxyAgent, fetch } from "undici";
import { ToolError, type Progress } from "./progress.ts";

const CONNECT_TIMEOUT_MS = 5_000;
const STALL_TIMEOUT_MS = 30_000;
const PROGRESS_EVERY_MS = 1000;
const ATTEMPTS = 2;

export interface Release {
  /** The archive (`.tar.gz`), or the program itself if `member` is unset. */
  url: string;
  /** Lines of `sha256  file name`, or a single hash. */
  checksums: string;
  /** The program's path inside the archive. */
  member?: string;
  /** SHA-256 of the content of `url`, in hex. Absent until it has been verified against the project's own publication. */
  sha256?: string;
}

/** Writes the program to `target`; uses `folder` (on the same file system) for temporary files. Throws ToolError. */
export async function downloadRelease(release: Release, folder: string, target: string, progress: Progress): Promise<void> {
  const file = basename(new URL(release.url).pathname);
  const expected = release.sha256 ?? checksumOf(file, await readText(release.checksums), release.checksums);
  const archive = join(folder, file);
  await download(release.url, archive, progress);
  const actual = await sha256(archive);
  if (actual !== expected) {
    await rm(archive);
    throw new ToolError(`${release.url} has SHA-256 ${actual}, but the expected one is ${expected}; it is not used`);
  }
  if (release.member === undefined) return rename(archive, target);
  await promisify(execFile)("tar", ["-xzf", archive, "-C", folder, release.member]).catch((error: Error) => {
    throw new ToolError(`cannot unpack ${release.member} from ${file}: ${error.message.trim()}`, { cause: error });
  });
  await rename(join(folder, release.member), target);
}

function checksumOf(file: string, checksums: string, source: string): string {
  const lines = checksums.split("\n").map((line) => line.trim().split(/\s+/));
  const line = lines.find(([, name]) => name !== undefined && basename(name.replace(/^\*/, "")) === file);
  const hash = (line ?? lines.find((words) => words.length === 1 && words[0] !== ""))?.[0]?.toLowerCase();
  if (hash === undefined || !/^[0-9a-f]{64}$/.test(hash)) throw new ToolError(`${source} has no SHA-256 of ${file}`);
  return hash;
}

async function readText(url: string): Promise<string> {
  return (await get(url)).text();
}

/** An interrupted transfer is retried once; an error response is not. */
async function download(url: string, file: string, progress: Progress): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    const answer = await get(url);
    if (!answer.body) throw new ToolError(`${url} answered without a body`);
    const megabytes = Math.ceil(Number(answer.headers.get("content-length") ?? 0) / 1e6);
    progress(`downloading ${url}${megabytes ? ` (${megabytes} MB)` : ""}`);
    try {
      return await pipeline(Readable.fromWeb(answer.body), countProgress(megabytes, progress), createWriteStream(file));
    } catch (error) {
      if (attempt === ATTEMPTS) throw new ToolError(`${url}: the transfer broke off (${reason(error)})`, { cause: error });
    }
  }
}

function countProgress(totalMegabytes: number, progress: Progress): Transform {
  let received = 0;
  let nextAt = Date.now() + PROGRESS_EVERY_MS;
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      received += chunk.length;
      if (Date.now() > nextAt) {
        nextAt = Date.now() + PROGRESS_EVERY_MS;
        progress(`${Math.round(received / 1e6)} of ${totalMegabytes || "?"} MB`, "live");
      }
      done(null, chunk);
    },
  });
}

/** Timeouts are short, because a failed download falls back to a build. HTTPS_PROXY and NO_PROXY are respected. */
const dispatcher = new EnvHttpProxyAgent({
  connect: { timeout: CONNECT_TIMEOUT_MS },
  headersTimeout: STALL_TIMEOUT_MS,
  bodyTimeout: STALL_TIMEOUT_MS,
  noProxy: [process.env["NO_PROXY"] ?? process.env["no_proxy"], "127.0.0.1", "localhost"].filter(Boolean).join(","),
});

async function get(url: string): Promise<Awaited<ReturnType<typeof fetch>>> {
  const answer = await fetch(url, { dispatcher }).catch((error: unknown) => {
    throw new ToolError(`${new URL(url).host} cannot be reached (${reason(error)})`, { cause: error });
  });
  if (!answer.ok) throw new ToolError(`${url} answered ${answer.status}`);
  return answer;
}

function reason(error: unknown): string {
  const { cause, message } = error as Error & { cause?: Error & { code?: string } };
  return cause?.code ?? cause?.message ?? message;
}

async function sha256(file: string): Promise<string> {
  const hash = createHash("sha256");
  await pipeline(createReadStream(file), hash);
  return hash.digest("hex");
}
