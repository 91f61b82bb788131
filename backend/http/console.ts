// Serves the console, built by hack/console.mjs: the page at `/`, its files under /console/. Invariants: all of it is read once, at the
// start, and answered from memory; nothing is loaded from elsewhere, and no text on the page becomes markup or script (its policy says so);
// the page itself is never cached, its files, whose names change with them, for ever.
import { readFileSync } from "node:fs";
import type { FastifyInstance, FastifyReply, FastifyRequest, onRequestAsyncHookHandler } from "fastify";
import { ApiError } from "../errors.ts";

const FOLDER = new URL("./console/", import.meta.url);
const PAGE = "index.html";
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "connect-src 'self'",
  "img-src 'self' data:",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
].join("; ");

interface ServedFile {
  readonly type: string;
  /** By content coding; `identity` always. */
  readonly bodies: Readonly<Record<"br" | "gzip" | "identity", Buffer>>;
}

/** The files of the build; undefined where nobody built it. */
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

/** What the page must know before anybody has logged in. */
export interface ConsoleSettings {
  readonly hasSingleSignOn: boolean;
  /** `npm start` started this backend: /console/start.json is there. */
  readonly isLocalStart: boolean;
}

/** What `npm start` tells of itself, to who may read. */
export interface StartTold {
  readonly onRequest: onRequestAsyncHookHandler;
  /** What this machine's agent still waits for; null: for nothing. */
  readonly waitsFor: () => string | null;
}

export interface ConsoleOptions {
  readonly hasSingleSignOn: boolean;
  readonly start?: StartTold | undefined;
}

export function registerConsole(app: FastifyInstance, files: ReadonlyMap<string, ServedFile>, options: ConsoleOptions): void {
  const { hasSingleSignOn, start } = options;
  const settings: ConsoleSettings = { hasSingleSignOn, isLocalStart: start !== undefined };
  const schema = { hide: true };
  app.get("/console/settings.json", { schema }, async (_request, reply) => await reply.header("cache-control", "no-store").send(settings));
  if (start)
    app.get("/console/start.json", { schema, onRequest: start.onRequest }, async (_request, reply) => {
      return await reply.header("cache-control", "no-store").send({ waits_for: start.waitsFor() });
    });
  app.get("/", { schema }, async (request, reply) => {
    void reply.header("content-security-policy", POLICY);
    return await send(files.get(PAGE), request, reply, "no-store");
  });
  app.get<{ Params: { name: string } }>("/console/:name", { schema }, async (request, reply) => {
    const { name } = request.params;
    const isHashed = /-[A-Z0-9]{8}\.\w+$/.test(name);
    return await send(
      name === PAGE ? undefined : files.get(name),
      request,
      reply,
      isHashed ? "public, max-age=31536000, immutable" : "no-cache",
    );
  });
}

async function send(file: ServedFile | undefined, request: FastifyRequest, reply: FastifyReply, caching: string): Promise<FastifyReply> {
  if (!file) throw new ApiError("not_found", "the console has no such file");
  const coding = codingOf(request.headers["accept-encoding"]);
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

/** The best of those that the browser takes; one with `q=0` it does not. */
function codingOf(accepted = ""): "br" | "gzip" | "identity" {
  const taken = new Set(
    accepted
      .split(",")
      .filter((coding) => !/;\s*q=0(?:\.0*)?\s*$/.test(coding))
      .map((coding) => coding.split(";", 1)[0]?.trim().toLowerCase()),
  );
  return taken.has("br") ? "br" : taken.has("gzip") ? "gzip" : "identity";
}
