// `npm run bench -- identity-tokens`: CPU time of verifying a token of a trusted issuer, the first time and from the cache, and of refusing one.
// Targets: at most 1 ms the first time, at most 20 µs from the cache.
import { testIssuer } from "../../backend/auth/issuers/issuer.fixture.ts";
import type { TrustedIssuerRow } from "../../backend/auth/issuers/issuer-table.ts";
import { TrustedIssuers } from "../../backend/auth/issuers/trusted-issuers.ts";

const ORG = "11111111-1111-4111-8111-111111111111";
const AUDIENCE = `atherops:${ORG}`;
const TOKENS = 1000;
const at = new Date();

for (const alg of ["RS256", "ES256"]) {
  const issuer = await testIssuer("https://issuer.example", { alg });
  const row: TrustedIssuerRow = {
    id: "33333333-3333-4333-8333-333333333333",
    org_id: ORG,
    name: "issuer",
    issuer: issuer.url,
    audience: AUDIENCE,
    jwks: JSON.stringify(issuer.jwks),
    keys_fetched_at: null,
    rules: JSON.stringify([{ claims: { sub: "system:*" }, permit: "send" }]),
    version: 1,
    created_by: "",
    created_at: at,
    updated_by: "",
    updated_at: at,
  };
  const select = { selectAll: () => select, where: () => select, orderBy: () => ({ execute: async () => [row] }) };
  const db = { selectFrom: () => select } as never;
  const issuers = new TrustedIssuers({ db, fetchKeys: () => Promise.reject(new Error("not fetched")) });
  const sign = async (n: number): Promise<string> => await issuer.token({ aud: AUDIENCE, sub: `system:serviceaccount:shop:${n}` });
  const tokens = await Promise.all(Array.from({ length: TOKENS }, (_, n) => sign(n)));
  const forged = tokens.map((token) => `${token.slice(0, -8)}AAAAAAAA`);
  const severalAudiences = Array<string>(TOKENS).fill(await issuer.token({ aud: [AUDIENCE, "other"] }));
  // Compiles the code.
  for (const token of forged.slice(0, 100)) await issuers.verify(token).catch(() => undefined);
  for (const [label, list] of [
    ["first time", tokens],
    ["cached", tokens],
    ["forged", forged],
    ["several audiences", severalAudiences],
  ] as const) {
    const before = process.cpuUsage();
    for (const token of list) await issuers.verify(token).catch(() => undefined);
    const { user, system } = process.cpuUsage(before);
    console.log(`${alg}, ${label}: ${((user + system) / list.length).toFixed(1)} µs CPU`);
  }
}
