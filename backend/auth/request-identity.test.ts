// A request whose route has no guard, or another guard, has no identity, and never a default one.
import type { FastifyInstance, FastifyRequest } from "fastify";
import { pino } from "pino";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { closeRoutes, createApp } from "../http/app.ts";
import { callerOf, orgOf, readerOf, signerOf } from "../http/request-identity.ts";

const USER = { userId: "u", orgId: "red", email: "u@example.org", role: "viewer", labelLimits: undefined } as const;
const KEY = { keyId: "k", kind: "host", orgId: "blue", hostId: "h", node: "n", createdAt: new Date(0) } as const;
const TOKEN = { tokenId: "t", orgId: "green", labelLimits: undefined } as const;

describe("the caller of a request", () => {
  let app: FastifyInstance;

  beforeEach(async () => {
    app = await createApp({ log: pino({ level: "silent" }) });
    const guards = {
      none: async () => {},
      user: async (request: FastifyRequest) => void (request.user = USER),
      key: async (request: FastifyRequest) => void (request.signingKey = KEY),
      token: async (request: FastifyRequest) => void (request.readToken = TOKEN),
    };
    for (const [name, onRequest] of Object.entries(guards)) {
      app.get(`/${name}/caller`, { onRequest }, async (request) => [callerOf(request).userId]);
      app.get(`/${name}/signer`, { onRequest }, async (request) => [signerOf(request).keyId]);
      app.get(`/${name}/reader`, { onRequest }, async (request) => [readerOf(request).orgId]);
      app.get(`/${name}/org`, { onRequest }, async (request) => [orgOf(request) ?? "none"]);
    }
    await closeRoutes(app);
  });

  afterEach(() => app.close());

  test.each([
    ["/user/caller", ["u"]],
    ["/key/signer", ["k"]],
    ["/user/org", ["red"]],
    ["/key/org", ["blue"]],
    ["/token/org", ["green"]],
    ["/user/reader", ["red"]],
    ["/token/reader", ["green"]],
    ["/none/org", ["none"]],
  ])("is known behind the guard of %s", async (url, expected) => {
    expect((await app.inject(url)).json()).toEqual(expected);
  });

  test.each([
    "/none/caller",
    "/none/signer",
    "/none/reader",
    "/user/signer",
    "/key/caller",
    "/key/reader",
    "/token/caller",
    "/token/signer",
  ])("is an internal error if the guard is missing: %s", async (url) => {
    const answer = await app.inject(url);
    expect([answer.statusCode, answer.json().error]).toEqual([500, "internal"]);
  });
});
