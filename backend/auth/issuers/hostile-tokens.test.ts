// Tokens that no issuer writes, or that are not for this organisation: all get one answer, which says nothing of the reason. Every mutant is
// a token that would be accepted without its one change. Strange tokens that are valid are listed too, with the rights that they have.
// `HOSTILE_TABLE=1` prints each token with its length, its answer, and the microseconds of CPU time that checking it takes.
import { createHmac, generateKeyPairSync } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type ApiError, ERROR_CODES } from "../../errors.ts";
import { MAX_AUTHORIZATION_LENGTH } from "../../http/http-limits.ts";
import type { IssuerRule } from "./claim-rules.ts";
import { checkRules, matchesPattern } from "./claim-rules.ts";
import { testIssuer, type TestIssuer } from "./issuer.fixture.ts";
import type { TrustedIssuerRow } from "./issuer-table.ts";
import { TrustedIssuers } from "./trusted-issuers.ts";

const ORG = "11111111-1111-4111-8111-111111111111";
/** Does not trust the issuer. */
const OTHER_ORG = "22222222-2222-4222-8222-222222222222";
/** Trusts the same issuer, with another rule. */
const SECOND_ORG = "33333333-3333-4333-8333-333333333333";
const AUDIENCE = `atherops:${ORG}`;
const NOW_MS = Date.parse("2026-11-29T12:00:00Z");
const NOW_S = NOW_MS / 1000;
const RULES: IssuerRule[] = [
  { claims: { sub: "system:serviceaccount:*:agent" }, permit: "send" },
  { claims: { sub: "system:serviceaccount:shop:agent" }, permit: "read", label_limits: { source: ["shop"] } },
  { claims: { sub: "system:serviceaccount:*:agent", team: "*" }, permit: "read" },
];
const REFUSAL = {
  code: "invalid_token",
  message: "the token is not accepted: its issuer, audience, times or signature are not those of a trusted issuer",
};
const SUB = "system:serviceaccount:observability:agent";

let issuer: TestIssuer;
let otherIssuer: TestIssuer;
let issuers: TrustedIssuers;
let lookups = 0;
const now = () => NOW_MS;
const table: (string | number)[][] = [];

beforeAll(async () => {
  issuer = await testIssuer("https://issuer.example", { now });
  otherIssuer = await testIssuer("https://issuer.example", { now });
  issuers = trusting(() => [
    rowOf(ORG, issuer.jwks, RULES),
    rowOf(SECOND_ORG, issuer.jwks, [{ claims: { sub: "another" }, permit: "send" }]),
  ]);
});

const at = new Date(NOW_MS);
function rowOf(org_id: string, jwks: object, rules: IssuerRule[]): TrustedIssuerRow {
  const changes = { version: 1, created_by: "", created_at: at, updated_by: "", updated_at: at };
  const names = { id: org_id, org_id, name: "issuer", issuer: "https://issuer.example", audience: `atherops:${org_id}` };
  return { ...names, jwks: JSON.stringify(jwks), keys_fetched_at: null, rules: JSON.stringify(rules), ...changes };
}
/** Trusts these issuers. The database answers the only statement that a token causes: the issuers of the organisation of its audience. */
function trusting(rows: () => TrustedIssuerRow[]): TrustedIssuers {
  const select = { selectAll: () => select, where: (_column: string, _operator: string, ids: string[]) => ((asked = ids), select) };
  let asked: string[] = [];
  const execute = async () => ((lookups += 1), rows().filter(({ org_id }) => asked.includes(org_id)));
  const db = { selectFrom: () => Object.assign(select, { orderBy: () => ({ execute }) }) } as never;
  return new TrustedIssuers({ db, now, fetchKeys: () => Promise.reject(new Error("not fetched")) });
}
afterAll(() => {
  for (const row of table) console.log(`| ${row.join(" | ")} |`);
});

/** With HOSTILE_TABLE, adds a line to the table: the answer to a token, and what checking one that is not cached costs. */
async function tabulate(title: string, make: () => Promise<string> | string): Promise<void> {
  if (!process.env["HOSTILE_TABLE"]) return;
  const verify = async (token: string) => {
    const { senders, readToken } = await issuers.verify(token);
    return `${senders.logs ? 200 : 403} to send, ${readToken ? 200 : 403} to read`;
  };
  const describe = ({ code, message }: ApiError) => `${ERROR_CODES[code][0]} ${code}: ${message}`;
  const tokens: string[] = [];
  for (let n = 0; n < 150; n += 1) tokens.push(await make());
  const answers = new Set<string>();
  // Compiles the code.
  for (const token of tokens.splice(0, 50)) answers.add(await verify(token).catch(describe));
  const before = process.cpuUsage();
  for (const token of tokens) await verify(token).catch(() => undefined);
  const { user, system } = process.cpuUsage(before);
  table.push([title, tokens[0]?.length ?? 0, [...answers].join("; "), Math.round((user + system) / tokens.length)]);
}

const base64 = (value: unknown) => Buffer.from(typeof value === "string" ? value : JSON.stringify(value)).toString("base64url");
let serial = 0;
/** Each token is another one, so that none is cached. */
const claims = (change: object = {}) => ({ sub: SUB, aud: AUDIENCE, jti: `${(serial += 1)}`, ...change });
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

const signedBy = (change: object, header?: object) => async () => await issuer.token(claims(change), { ...header });
const withSignature = (signature: Buffer) => async () => (await good()).replace(/[^.]+$/, signature.toString("base64url"));
const nested = (depth: number) => JSON.parse(`${"[".repeat(depth)}${"]".repeat(depth)}`) as unknown;

const HOSTILE: readonly [string, () => Promise<string> | string][] = [
  ["alg none", async () => `${base64({ alg: "none", kid: "key-1" })}.${(await good()).split(".")[1]}.`],
  ["alg none with a signature", async () => await spliced({ alg: "none", kid: "key-1" }, undefined)],
  ["an algorithm in lower case", async () => await spliced({ alg: "es256", kid: "key-1" }, undefined)],
  ["a list of algorithms", async () => await spliced({ alg: ["ES256"], kid: "key-1" }, undefined)],
  [
    "the public key as a shared secret",
    async () => {
      const [, payload] = (await good()).split(".");
      const signed = `${base64({ alg: "HS256", kid: "key-1" })}.${payload}`;
      return `${signed}.${createHmac("sha256", JSON.stringify(issuer.jwk)).update(signed).digest("base64url")}`;
    },
  ],
  ["an unknown key id", signedBy({}, { kid: "key-2" })],
  ["no key id", signedBy({}, { kid: undefined })],
  ["a key id that is no text", signedBy({}, { kid: ["key-1"] })],
  ["a key id that is a path", signedBy({}, { kid: "../../../../dev/null" })],
  ["a key id with a NUL", signedBy({}, { kid: "key-1\0" })],
  ["the key id __proto__", signedBy({}, { kid: "__proto__" })],
  ["a key id of 1 MB", signedBy({}, { kid: "k".repeat(1024 * 1024) })],
  ["the signature of another key with the same id", async () => await otherIssuer.token(claims())],
  ["its own key in the header (jwk)", async () => await otherIssuer.token(claims(), { jwk: otherIssuer.jwk })],
  ["its own key at a URL (jku)", async () => await otherIssuer.token(claims(), { jku: "https://other.example/keys" })],
  ["its own certificate at a URL (x5u)", async () => await otherIssuer.token(claims(), { x5u: "https://other.example/crt" })],
  ["its own certificate (x5c)", async () => await otherIssuer.token(claims(), { x5c: ["MIIB"], x5t: "a" })],
  ["a critical extension", signedBy({}, { crit: ["b64"], b64: true })],
  ["claims that are not encoded (b64)", async () => await spliced({ alg: "ES256", kid: "key-1", crit: ["b64"], b64: false }, undefined)],
  ["another algorithm than its key", async () => await spliced({ alg: "RS256", kid: "key-1" }, undefined)],
  ["a signature of zeros", withSignature(Buffer.alloc(64))],
  ["a signature of ones", withSignature(Buffer.alloc(64, 255))],
  ["a signature of one byte", withSignature(Buffer.alloc(1))],
  ["another token as its claims", async () => `${base64({ alg: "ES256", kid: "key-1", cty: "JWT" })}.${base64(await good())}.AAAA`],
  ["five parts, as an encrypted one", async () => `${await good()}.AAAA.AAAA`],
  ["padding", async () => `${await good()}==`],
  ["another audience", signedBy({ aud: "https://other.example" })],
  ["the audience of another organisation", signedBy({ aud: `atherops:${OTHER_ORG}` })],
  ["another audience with the organisation's id", signedBy({ aud: `other:${ORG}` })],
  ["its audience in upper case", signedBy({ aud: AUDIENCE.toUpperCase() })],
  ["several audiences", signedBy({ aud: [AUDIENCE, "https://other.example"] })],
  ["the audience twice", signedBy({ aud: [AUDIENCE, AUDIENCE] })],
  ["an audience that is an object", signedBy({ aud: { 0: AUDIENCE, length: 1 } })],
  ["an audience in a list in a list", signedBy({ aud: [[AUDIENCE]] })],
  ["no audience", signedBy({ aud: undefined })],
  ["another issuer", signedBy({ iss: "https://other.example" })],
  ["its issuer with a slash", signedBy({ iss: "https://issuer.example/" })],
  ["its issuer in upper case", signedBy({ iss: "https://ISSUER.example" })],
  ["no subject", signedBy({ sub: undefined })],
  ["a subject that is a number", signedBy({ sub: 1 })],
  ["a subject with a NUL", signedBy({ sub: "system:serviceaccount:a\0:agent" })],
  ["a subject with half a character", signedBy({ sub: "system:serviceaccount:\ud800:agent" })],
  ["a subject of 501 characters", signedBy({ sub: `system:serviceaccount:${"a".repeat(473)}:agent` })],
  ["no end", signedBy({ exp: undefined })],
  ["an end in the past", signedBy({ exp: NOW_S - 31 })],
  ["an end before 1970", signedBy({ exp: -1e300 })],
  ["an end that is a word", signedBy({ exp: "never" })],
  ["an end that is a text", signedBy({ exp: `${NOW_S + 60}` })],
  ["an end in a list", signedBy({ exp: [NOW_S + 60] })],
  ["a begin in the future", signedBy({ nbf: NOW_S + 31 })],
  ["a begin that is a text", signedBy({ nbf: "0" })],
  ["a time of issue that is a text", signedBy({ iat: "0" })],
  ["1 MB", () => `${base64({ alg: "ES256", kid: "key-1" })}.${"a".repeat(1024 * 1024)}.a`],
  ["other text", () => "a.b.c"],
  ["a list of claims", async () => await spliced(undefined, [claims()])],
  ["a list 5,000 levels deep instead of claims", async () => await spliced(undefined, nested(2500))],
  ["600 claims", signedBy({ groups: Object.fromEntries(Array.from({ length: 600 }, (_, n) => [`${n}`, 1])) })],
];
test.each(HOSTILE)("a token with %s is refused with the one text", async (title, make) => {
  await expect(issuers.verify(await make())).rejects.toMatchObject(REFUSAL);
  await tabulate(title, make);
});

const STRANGE: readonly [string, () => Promise<string>, object][] = [
  ["URLs of keys, which are ignored", signedBy({}, { jku: "https://other.example/keys", x5u: "https://other.example/crt" }), {}],
  ["b64 without crit, which is ignored", signedBy({}, { b64: false }), {}],
  ["a time of issue in the future", signedBy({ iat: NOW_S + 86_400 }), {}],
  ["an end with a fraction", signedBy({ exp: NOW_S + 0.5 }), {}],
  ["an end of 1e300", signedBy({ exp: 1e300 }), {}],
  ["a list of 1,200 groups", signedBy({ groups: Array.from({ length: 1200 }, () => "g") }), {}],
  ["claims 1,500 levels deep", signedBy({ deep: nested(1500) }), {}],
  ["a subject with the characters of a pattern", signedBy({ sub: "system:serviceaccount:*:agent" }), {}],
  ["a subject that is a pattern", signedBy({ sub: "*" }), { senders: {} }],
  ["a subject with a letter that looks the same", signedBy({ sub: SUB.replace("a", "\u0430") }), { senders: {} }],
  ["a subject in upper case", signedBy({ sub: SUB.toUpperCase() }), { senders: {} }],
  ["a subject with a space after it", signedBy({ sub: `${SUB} ` }), { senders: {} }],
  [
    "a subject of two rules, which permit different things",
    signedBy({ sub: "system:serviceaccount:shop:agent" }),
    { readToken: { orgId: ORG, labelLimits: { source: ["shop"] } } },
  ],
  [
    "a subject of two rules that permit to read: the first one applies",
    signedBy({ sub: "system:serviceaccount:shop:agent", team: "a" }),
    { readToken: { orgId: ORG, labelLimits: { source: ["shop"] } } },
  ],
  [
    "the audience of another organisation that trusts the issuer",
    signedBy({ aud: `atherops:${SECOND_ORG}` }),
    { orgId: SECOND_ORG, senders: {} },
  ],
];
test.each(STRANGE)("a token with %s has the rights of the rules", async (title, make, expected) => {
  const identity = await issuers.verify(await make());
  expect(identity).toMatchObject({ orgId: ORG, ...expected });
  expect(Object.keys(identity.senders)).toEqual("senders" in expected ? [] : ["metrics", "logs", "traces"]);
  await tabulate(title, make);
});

test("a token of a removed issuer is refused, although it was verified before", async () => {
  const rows = [rowOf(ORG, issuer.jwks, RULES)];
  const own = trusting(() => rows);
  const token = await good();
  await own.verify(token);
  rows.pop();
  own.forget(ORG);
  await expect(own.verify(token)).rejects.toMatchObject(REFUSAL);
});

const KEYS: readonly [string, () => object[]][] = [
  ["of one id twice", () => [{ ...issuer.jwk }, { ...otherIssuer.jwk }]],
  [
    "of 512 bits, filled with zeros",
    () => [{ kty: "RSA", kid: "key-1", e: "AQAB", n: Buffer.alloc(256).fill(255, 192).toString("base64url") }],
  ],
  ["that is no point of its curve", () => [{ ...issuer.jwk, y: issuer.jwk.x }]],
  ["of another curve than its algorithm", () => [{ ...issuer.jwk, crv: "P-384" }]],
  ["of two types", () => [{ ...issuer.jwk, kty: "OKP" }]],
];
test.each(KEYS)("a token of an issuer with a key %s is refused with the one text", async (_title, keys) => {
  const own = trusting(() => [rowOf(ORG, { keys: keys() }, RULES)]);
  for (const alg of ["ES256", "RS256", "EdDSA"]) {
    const token = alg === "ES256" ? good() : spliced({ alg, kid: "key-1" }, undefined);
    await expect(own.verify(await token)).rejects.toMatchObject(REFUSAL);
  }
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

test.each<[Record<string, string>]>([
  [{ sub: "*" }],
  [{ sub: "**", team: "*" }],
  [{ iss: "https://issuer.example", aud: AUDIENCE, sub: "*" }],
  [{ sub: "a*a*a*a*a*a*a*a*a*a" }],
])("a rule with the claims %j is refused", (patterns) => {
  expect(() => checkRules([{ claims: patterns, permit: "send" }])).toThrow("rules[0].claims");
});
