// Tokens that no issuer writes, or that are not for this organisation: all get one answer, which says nothing of the reason. Every mutant is
// a token that would be accepted without its one change.
import { createHmac, generateKeyPairSync } from "node:crypto";
import { beforeAll, expect, test } from "vitest";
import { MAX_AUTHORIZATION_LENGTH } from "../../http/http-limits.ts";
import type { IssuerRule } from "./claim-rules.ts";
import { matchesPattern } from "./claim-rules.ts";
import { testIssuer, type TestIssuer } from "./issuer.fixture.ts";
import type { TrustedIssuerRow } from "./issuer-table.ts";
import { TrustedIssuers } from "./trusted-issuers.ts";

const ORG = "11111111-1111-4111-8111-111111111111";
const OTHER_ORG = "22222222-2222-4222-8222-222222222222";
const AUDIENCE = `atherops:${ORG}`;
const NOW_MS = Date.parse("2026-11-29T12:00:00Z");
const NOW_S = NOW_MS / 1000;
const RULES: IssuerRule[] = [{ claims: { sub: "system:serviceaccount:*:agent" }, permit: "send" }];
const SUB = "system:serviceaccount:observability:agent";

let issuer: TestIssuer;
let otherIssuer: TestIssuer;
let issuers: TrustedIssuers;
let lookups = 0;
const now = () => NOW_MS;

beforeAll(async () => {
  issuer = await testIssuer("https://issuer.example", { now });
  otherIssuer = await testIssuer("https://issuer.example", { now });
  const at = new Date(NOW_MS);
  const row: TrustedIssuerRow = {
    id: "33333333-3333-4333-8333-333333333333",
    org_id: ORG,
    name: "issuer",
    issuer: issuer.url,
    audience: AUDIENCE,
    jwks: JSON.stringify(issuer.jwks),
    keys_fetched_at: null,
    rules: JSON.stringify(RULES),
    version: 1,
    created_by: "",
    created_at: at,
    updated_by: "",
    updated_at: at,
  };
  // The only statement that a token causes: the issuers of the organisation that its audience names.
  const select = { selectAll: () => select, where: (_column: string, _operator: string, ids: string[]) => ((asked = ids), select) };
  let asked: string[] = [];
  const execute = async () => ((lookups += 1), asked.includes(ORG) ? [row] : []);
  const db = { selectFrom: () => Object.assign(select, { orderBy: () => ({ execute }) }) } as never;
  issuers = new TrustedIssuers({ db, now, fetchKeys: () => Promise.reject(new Error("not fetched")) });
});

const base64 = (value: unknown) => Buffer.from(typeof value === "string" ? value : JSON.stringify(value)).toString("base64url");
const claims = (change: object = {}) => ({ sub: SUB, aud: AUDIENCE, ...change });
const good = async () => await issuer.token(claims());
/** The good token with other first parts, and its signature. */
const spliced = async (header: unknown, payload: unknown) => {
  const [h, p, signature] = (await good()).split(".");
  return [header === undefined ? h : base64(header), payload === undefined ? p : base64(payload), signature].join(".");
};

test("a token of the issuer is accepted, with its audience as a text or a list of one", async () => {
  for (const aud of [AUDIENCE, [AUDIENCE]]) {
    const identity = await issuers.verify(await issuer.token(claims({ aud })));
    expect(identity).toMatchObject({
      orgId: ORG,
      subject: SUB,
      senders: { logs: { orgId: ORG, node: SUB } },
      readToken: undefined,
      enrol: {},
    });
  }
});

const HOSTILE: readonly [string, () => Promise<string> | string][] = [
  ["alg none", async () => `${base64({ alg: "none", kid: "key-1" })}.${(await good()).split(".")[1]}.`],
  ["alg none with a signature", async () => await spliced({ alg: "none", kid: "key-1" }, undefined)],
  [
    "the public key as a shared secret",
    async () => {
      const [, payload] = (await good()).split(".");
      const signed = `${base64({ alg: "HS256", kid: "key-1" })}.${payload}`;
      return `${signed}.${createHmac("sha256", JSON.stringify(issuer.jwk)).update(signed).digest("base64url")}`;
    },
  ],
  ["an unknown key id", async () => await issuer.token(claims(), { kid: "key-2" })],
  ["no key id", async () => await issuer.token(claims(), { kid: undefined })],
  ["a key id that is no text", async () => await issuer.token(claims(), { kid: ["key-1"] })],
  ["the signature of another key with the same id", async () => await otherIssuer.token(claims())],
  ["its own key in the header", async () => await otherIssuer.token(claims(), { jwk: otherIssuer.jwk })],
  ["a critical extension", async () => await issuer.token(claims(), { crit: ["b64"], b64: true })],
  ["another algorithm than its key", async () => await spliced({ alg: "RS256", kid: "key-1" }, undefined)],
  ["another audience", async () => await issuer.token(claims({ aud: "https://other.example" }))],
  ["the audience of another organisation", async () => await issuer.token(claims({ aud: `atherops:${OTHER_ORG}` }))],
  ["another audience with the organisation's id", async () => await issuer.token(claims({ aud: `other:${ORG}` }))],
  ["several audiences", async () => await issuer.token(claims({ aud: [AUDIENCE, "https://other.example"] }))],
  ["no audience", async () => await issuer.token({ sub: SUB })],
  ["another issuer", async () => await issuer.token(claims({ iss: "https://other.example" }))],
  ["no subject", async () => await issuer.token(claims({ sub: undefined }))],
  ["no end", async () => await issuer.token(claims({ exp: undefined }))],
  ["an end in the past", async () => await issuer.token(claims({ exp: NOW_S - 31 }))],
  ["a begin in the future", async () => await issuer.token(claims({ nbf: NOW_S + 31 }))],
  ["an end that is no number", async () => await issuer.token(claims({ exp: "never" as never }))],
  ["more text than a header", () => `${base64({ alg: "ES256", kid: "key-1" })}.${"a".repeat(1024 * 1024)}.a`],
  ["other text", () => "a.b.c"],
  ["a list of claims", async () => await spliced(undefined, [claims()])],
  [
    "5,000 members",
    async () => await issuer.token(claims({ groups: Object.fromEntries(Array.from({ length: 600 }, (_, n) => [`${n}`, 1])) })),
  ],
];
test.each(HOSTILE)("a token with %s is refused with the one text", async (_title, token) => {
  await expect(issuers.verify(await token())).rejects.toMatchObject({
    code: "invalid_token",
    message: "the token is not accepted: its issuer, audience, times or signature are not those of a trusted issuer",
  });
});

test("a token with two members of one name is refused, although its signature is right", async () => {
  const { privateKey, publicKey } = generateKeyPairSync("ed25519");
  expect(publicKey.asymmetricKeyType).toBe("ed25519");
  const { readToken } = await import("./identity-token.ts");
  const header = base64({ alg: "EdDSA", kid: "k" });
  const one = `{"iss":"i","aud":"${AUDIENCE}","sub":"s","exp":1}`;
  const token = (payload: string) => `${header}.${base64(payload)}.${base64(privateKey.asymmetricKeyType ?? "")}`;
  expect(readToken(token(one))).toMatchObject({ orgId: ORG });
  for (const payload of [
    one.replace("{", '{"sub":"admin",'),
    one.replace("{", String.raw`{"\u0073ub":"admin",`),
    one.replace("{", '{"a":{"b":1,"b":2},'),
  ])
    expect(readToken(token(payload)), payload).toBeUndefined();
  expect(readToken(token(one.replace("{", '{"a":{"sub":1},"b":"\\"sub\\":",')))).toBeDefined();
});

test("a token that is not for a known organisation costs one lookup at most, and a cached one none", async () => {
  const token = await good();
  await issuers.verify(token);
  lookups = 0;
  for (let n = 0; n < 10; n += 1) await issuers.verify(token);
  await issuers.verify("a.b.c").catch(() => undefined);
  await issuers.verify(`${"a".repeat(MAX_AUTHORIZATION_LENGTH)}.b.c`).catch(() => undefined);
  expect(lookups).toBe(0);
});

test.each([
  ["a", "a", true],
  ["a", "ab", false],
  ["*", "", true],
  ["a*", "ab", true],
  ["a*a", "a", false],
  ["a*b*c", "a-b-c", true],
  ["a*b*c", "a-c-b", false],
  ["repo:acme/*:ref:refs/heads/main", "repo:acme/shop:ref:refs/heads/main", true],
  ["repo:acme/*:ref:refs/heads/main", "repo:acme-evil/shop:ref:refs/heads/main", false],
  ["*a*a*a*a*b", "a".repeat(500), false],
])("the pattern %s matches %s: %s", (pattern, text, isMatch) => {
  expect(matchesPattern(pattern, text)).toBe(isMatch);
});
