// Serves the console, built by hack/console.mjs: the page at `/`, its files under /console/. Invariants: all files are read once, at start,
// and served from memory; the content security policy forbids other origins, turning text into markup or script, and inline scripts and styles
// other than those of the build, by their hashes; a cached page is used only after the server has confirmed it, while its files have hashed
// names and are cached without expiry.
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { acceptsCoding } from "./http-client.ts";
import { addRoute, endpoint } from "./route.ts";
import type { Guards } from "./request-identity.ts";
import { ApiError } from "../errors.ts";

const FOLDER = new URL("./console/", import.meta.url);
const PAGE = "index.html";

/** The content security policy of the page, whose inline scripts and styles are allowed by their hashes. */
function policyOf(page: string): string {
  const hashes = (element: "script" | "style"): string =>
    Array.from(
      page.matchAll(new RegExp(`<${element}\\b[^>]*>(.*?)</${element}>`, "gs")),
      ([, text = ""]) => ` 'sha256-${sha256(text)}'`,
    ).join("");
  return [
    "default-src 'none'",
    `script-src 'self'${hashes("script")}`,
    `style-src 'self'${hashes("style")}`,
    "connect-src 'self'",
    "img-src 'self' data:",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
  ].join("; ");
}

function sha256(text: string): string {
  return createHash("sha256").update(text).digest("base64");
}

interface ServedFile {
  readonly type: string;
  /** The file in each content coding. */
  readonly bodies: Readonly<Record<"br" | "gzip" | "identity", Buffer>>;
}

/** The files of the build; undefined if the console was not built. */
export function readConsole(folder = FOLDER): ReadonlyMap<string, ServedFile> | undefined {
  const read = (name: string): Buffer => readFileSync(new URL(name, folder));
  try {
    const { files } = JSON.parse(read("files.json").toString()) as { files: { name: string; type: string }[] };
    return new Map(
      files.map(({ name, type }) => [name, { type, bodies: { identity: read(name), br: read(`${name}.br`), gzip: read(`${name}.gz`) } }]),
    );
  } catch {
    return undefined;
  }
}

/** Public settings that the page needs before a login. */
export interface ConsoleSettings {
  readonly hasSingleSignOn: boolean;
  /** `npm start` started this backend, so /console/start.json exists. */
  readonly isLocalStart: boolean;
}

/** The state of `npm start`, for users who may read. */
export interface StartState {
  /** What the agent of this machine is waiting for; null if it is not waiting. */
  readonly waitsFor: () => string | null;
}

export interface ConsoleOptions {
  readonly guards: Pick<Guards, "user">;
  readonly hasSingleSignOn: boolean;
  readonly start?: StartState | undefined;
}

export function registerConsole(app: FastifyInstance, files: ReadonlyMap<string, ServedFile>, options: ConsoleOptions): void {
  const { guards, hasSingleSignOn, start } = options;
  const page = files.get(PAGE)?.bodies.identity.toString() ?? "";
  const policy = policyOf(page);
  // Weak, because the page has the same one in each content coding.
  const etag = `W/"${sha256(`${policy} ${page}`)}"`;
  const settings: ConsoleSettings = { hasSingleSignOn, isLocalStart: start !== undefined };
  addRoute(app, guards, {
    ...endpoint("GET", "/console/settings.json", "anyone"),
    handler: async (_request, reply) => await reply.header("cache-control", "no-store").send(settings),
  });
  if (start)
    addRoute(app, guards, {
      ...endpoint("GET", "/console/start.json", "viewer"),
      limited: "filtered",
      handler: async (_request, reply) => {
        return await reply.header("cache-control", "no-store").send({ waits_for: start.waitsFor() });
      },
    });
  addRoute(app, guards, {
    ...endpoint("GET", "/", "anyone"),
    handler: async (request, reply) => {
      void reply.header("content-security-policy", policy).header("etag", etag);
      if (request.headers["if-none-match"] === etag) void reply.code(304);
      return await send(files.get(PAGE), request, reply, "no-cache");
    },
  });
  addRoute(app, guards, {
    ...endpoint("GET", "/console/:name", "anyone"),
    handler: async (request: FastifyRequest<{ Params: { name: string } }>, reply: FastifyReply) => {
      const { name } = request.params;
      const isHashed = /-[A-Z0-9]{8}\.\w+$/.test(name);
      return await send(
        name === PAGE ? undefined : files.get(name),
        request,
        reply,
        isHashed ? "public, max-age=31536000, immutable" : "no-cache",
      );
    },
  });
}

async function send(file: ServedFile | undefined, request: FastifyRequest, reply: FastifyReply, caching: string): Promise<FastifyReply> {
  if (!file) throw new ApiError("not_found", "file of the console not found");
  const accepted = request.headers["accept-encoding"];
  const coding = (["br", "gzip"] as const).find((name) => acceptsCoding(accepted, name)) ?? "identity";
  void reply
    .header("cache-control", caching)
    .header("vary", "accept-encoding")
    .header("x-content-type-options", "nosniff")
    .header("referrer-policy", "no-referrer")
    .header("cross-origin-opener-policy", "same-origin")
    .header("cross-origin-resource-policy", "same-origin");
  if (coding !== "identity") void reply.header("content-encoding", coding);
  return await reply.type(file.type).send(file.bodies[coding]);
}
