// The cases that every row has according to its kind of authentication: which requests are refused, and with which error code.
import { createHash, createHmac, randomUUID } from "node:crypto";
import { sign } from "../../../common/protocol/signature.ts";
import { call } from "../../fixtures/processes.ts";
import { answers, type Case, type Row, withId } from "./case.ts";
import { backend, cluster, host, red, viewer } from "./tenants.ts";

export function authCases(row: Row): Case[] {
  if (row.auth === "signed") return signatureCases(row);
  if (row.auth === "none") return [];
  const expected = row.auth === "install token" ? "invalid_install_token" : "invalid_token";
  const bearer = (name: string, token: () => string | undefined, status = 401, error = expected): Case =>
    answers(
      name,
      (url) =>
        call(row.method, url, {
          bearer: token(),
          body: row.method === "GET" || row.method === "DELETE" ? undefined : {},
          headers: { "idempotency-key": randomUUID() },
        }),
      status,
      error,
    );
  const cases = [
    bearer("no bearer token", () => undefined),
    bearer("a token that is none", () => "abc"),
    bearer("an agent's key", () => red.apiKey),
    bearer(
      "a token of another algorithm",
      () => `${Buffer.from('{"alg":"none"}').toString("base64url")}.${Buffer.from("{}").toString("base64url")}.`,
    ),
    bearer("a token with a foreign signature", () => forged()),
  ];
  if (row.auth === "admin" || row.auth === "operator") cases.push(bearer("a viewer", () => viewer, 403, "forbidden"));
  if (row.auth === "operator") cases.push(bearer("an admin", () => red.token, 403, "forbidden"));
  return cases;
}

function forged(): string {
  const [header = "", payload = ""] = red.token.split(".");
  return `${header}.${payload}.${createHmac("sha256", "not the secret").update(`${header}.${payload}`).digest("base64url")}`;
}

function signatureCases(row: Row): Case[] {
  const path = withId(row.path);
  const key = (): string => (row.kinds?.includes("direct") ? red.apiKey : row.kinds?.includes("host") ? host.key : cluster.key);
  const send = (name: string, headers: () => Record<string, string>, error: string, status = 401): Case =>
    answers(name, () => call(row.method, `${backend.apiUrl}${path}`, { headers: headers() }), status, error);
  const good = (at = Date.now() / 1000): Record<string, string> => sign(key(), row.method, path, at);
  const without = (name: string): Record<string, string> =>
    Object.fromEntries(Object.entries(good()).filter(([header]) => header !== name));
  const cases = [
    send("no headers", () => ({}), "missing_header"),
    send("no timestamp", () => without("x-timestamp"), "missing_header"),
    send("no key hash", () => without("x-key-hash"), "missing_header"),
    send("no signature", () => without("x-signature"), "missing_header"),
    send("a timestamp that is not digits", () => ({ ...good(), "x-timestamp": "1e9" }), "malformed_header"),
    send("an uppercase key hash", () => ({ ...good(), "x-key-hash": good()["x-key-hash"]?.toUpperCase() ?? "" }), "malformed_header"),
    send("a short signature", () => ({ ...good(), "x-signature": "ab" }), "malformed_header"),
    send("6 minutes ago", () => good(Date.now() / 1000 - 360), "stale_timestamp"),
    send("6 minutes ahead", () => good(Date.now() / 1000 + 360), "stale_timestamp"),
    send("an unknown key", () => sign("ak_unknown", row.method, path, Date.now() / 1000), "unknown_key"),
    send("another path signed", () => sign(key(), row.method, "/other", Date.now() / 1000), "bad_signature"),
    send("another method signed", () => sign(key(), "PATCH", path, Date.now() / 1000), "bad_signature"),
    send("the hash as the key", () => ({ ...good(), "x-signature": hashAsKey(key(), row.method, path) }), "bad_signature"),
  ];
  const wrong = (["cluster", "host", "direct"] as const).filter((kind) => !row.kinds?.includes(kind));
  const keys = { cluster: () => cluster.key, host: () => host.key, direct: () => red.apiKey };
  for (const kind of wrong)
    cases.push(send(`a ${kind} key`, () => sign(keys[kind](), row.method, path, Date.now() / 1000), "wrong_key_kind", 403));
  return cases;
}

function hashAsKey(key: string, method: string, path: string): string {
  const hash = createHash("sha256").update(key).digest("hex");
  return createHmac("sha256", hash)
    .update(`${Math.floor(Date.now() / 1000)}\n${method}\n${path}`)
    .digest("hex");
}
