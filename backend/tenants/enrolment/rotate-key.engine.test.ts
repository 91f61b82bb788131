// Key rotation over time: overlap, lost responses, and which key can request the response again; on both engines of the relational store.
import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { accountsApp, makeOrg, registerCluster, registerHost, type AccountsApp, type Org } from "../../../test/fixtures/accounts-app.ts";
import { describeOnEachStore } from "../../../test/fixtures/each-store.ts";

const SECOND_MS = 1000;
const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;

describeOnEachStore((store) => {
  let backend: AccountsApp;
  let org: Org;
  let cluster_id: string;
  let oldKey: string;
  let idempotency: string;

  beforeAll(async () => {
    backend = await accountsApp(store.database, { env: { JWT_TTL: "300d" } });
    org = await makeOrg(backend);
  });
  afterAll(async () => await backend?.[Symbol.asyncDispose]());
  beforeEach(async () => {
    ({ cluster_id, api_key: oldKey } = await registerCluster(backend, org.token));
    idempotency = randomUUID();
    expect(await beat(oldKey)).toBe(204);
  });

  const beat = async (key: string) => {
    const answer = await backend.call("POST", "/heartbeat", { key });
    return answer.statusCode === 204 ? 204 : answer.json().error;
  };
  const rotate = (key: string, id: string | undefined = idempotency) =>
    backend.call("POST", "/api/clusters/rotate-key", { key, headers: id === undefined ? {} : { "idempotency-key": id } });
  const outcome = async (key: string, id?: string) => {
    const answer = await rotate(key, id);
    return answer.statusCode === 200 ? answer.json().api_key : answer.json().error;
  };

  test("the new key signs immediately, and the old one until exactly 5 minutes later: 4:59 yes, 5:01 no", async () => {
    const started = backend.clock.ms;
    const answer = await rotate(oldKey);
    expect(answer.statusCode).toBe(200);
    expect(answer.headers["x-key-age-days"]).toBe("0");
    const { api_key, ...times } = answer.json();
    expect(times).toEqual({
      key_created_at: new Date(started).toISOString(),
      previous_key_expires_at: new Date(started + 5 * MINUTE_MS).toISOString(),
    });
    for (const [afterMs, expected] of [
      [4 * MINUTE_MS + 59 * SECOND_MS, 204],
      [5 * MINUTE_MS - 1, 204],
      [5 * MINUTE_MS, "revoked_key"],
      [5 * MINUTE_MS + SECOND_MS, "revoked_key"],
    ] as const) {
      backend.clock.ms = started + afterMs;
      expect(await beat(oldKey)).toBe(expected);
      expect(await beat(api_key)).toBe(204);
    }
  });

  test("X-Key-Age-Days starts again with the new key", async () => {
    backend.clock.ms += 40 * 24 * HOUR_MS;
    const answer = await rotate(oldKey);
    expect(answer.headers["x-key-age-days"]).toBe("40");
    const after = await backend.call("POST", "/heartbeat", { key: answer.json().api_key });
    expect(after.headers["x-key-age-days"]).toBe("0");
  });

  test("the same Idempotency-Key returns the same bytes, also once the new key is in use", async () => {
    const first = await rotate(oldKey);
    backend.clock.ms += MINUTE_MS;
    expect((await rotate(oldKey)).body).toBe(first.body);
    expect(await beat(first.json().api_key)).toBe(204);
    expect((await rotate(oldKey)).body).toBe(first.body);
    expect((await rotate(first.json().api_key)).body).toBe(first.body);
  });

  test("another Idempotency-Key gets 409 while a rotation is younger than the overlap, from the old key and the new", async () => {
    const { api_key } = (await rotate(oldKey)).json();
    expect(await outcome(oldKey, randomUUID())).toBe("rotation_in_progress");
    expect(await outcome(api_key, randomUUID())).toBe("rotation_in_progress");
    backend.clock.ms += 4 * MINUTE_MS;
    const [replaced, young] = [await rotate(oldKey, randomUUID()), await rotate(api_key, randomUUID())];
    expect([replaced.headers["retry-after"], young.headers["retry-after"]]).toEqual(["60", "60"]);
    expect(replaced.json().message).toContain("has a newer key");
    expect(young.json().message).toContain("created by a rotation less than 5 minutes ago");
    backend.clock.ms += MINUTE_MS - 1;
    expect(await outcome(api_key, randomUUID())).toBe("rotation_in_progress");
    backend.clock.ms += 1;
    expect(await outcome(api_key, randomUUID())).toMatch(/^ak_/);
    expect(await outcome(oldKey, randomUUID())).toBe("revoked_key");
  });

  test("ten concurrent requests with ten Idempotency-Keys create one new key; with one, they all get it", async () => {
    const different = await Promise.all(Array.from({ length: 10 }, () => outcome(oldKey, randomUUID())));
    expect(different.filter((result) => result.startsWith("ak_"))).toHaveLength(1);
    expect(different.filter((result) => result === "rotation_in_progress")).toHaveLength(9);
    const fresh = await registerCluster(backend, org.token);
    const same = await Promise.all(Array.from({ length: 10 }, () => outcome(fresh.api_key, idempotency)));
    expect(new Set(same).size).toBe(1);
  });

  test("repeating a lost response after 5 minutes returns the same new key, and the old key can do nothing else", async () => {
    const lost = (await rotate(oldKey)).json().api_key;
    backend.clock.ms += 5 * MINUTE_MS + SECOND_MS;
    expect(await beat(oldKey)).toBe("revoked_key");
    expect(await outcome(oldKey, randomUUID())).toBe("revoked_key");
    const nameless = await backend.call("POST", "/api/clusters/rotate-key", { key: oldKey });
    expect(nameless.json().error).toBe("revoked_key");
    const again = await rotate(oldKey);
    expect([again.statusCode, again.json().api_key]).toEqual([200, lost]);
    expect(await outcome(oldKey)).toBe(lost);
    expect(await beat(lost)).toBe(204);
    expect(await outcome(oldKey)).toBe("revoked_key");
  });

  test("a lost response can be repeated for 24 hours", async () => {
    const lost = await outcome(oldKey);
    backend.clock.ms += 24 * HOUR_MS;
    expect(await outcome(oldKey)).toBe(lost);
    backend.clock.ms += 1;
    expect(await outcome(oldKey)).toBe("revoked_key");
  });

  test("a deleted cluster's rotation is not returned again, to the old key or the new", async () => {
    const lost = await outcome(oldKey);
    expect((await backend.call("DELETE", `/api/clusters/${cluster_id}`, { bearer: org.token })).statusCode).toBe(204);
    for (const key of [oldKey, lost]) expect(await outcome(key)).toBe("revoked_key");
  });

  test("a key that a new registration replaced cannot start a rotation that would end the new key", async () => {
    const cluster_uid = randomUUID();
    const replaced = await registerCluster(backend, org.token, { cluster_uid });
    const current = await registerCluster(backend, org.token, { cluster_uid });
    expect(await outcome(replaced.api_key)).toBe("rotation_in_progress");
    backend.clock.ms += 10 * MINUTE_MS;
    expect(await beat(current.api_key)).toBe(204);
  });

  test("another cluster cannot use this cluster's Idempotency-Key to get its key", async () => {
    const mine = await outcome(oldKey);
    const neighbour = await registerCluster(backend, org.token);
    expect(await outcome(neighbour.api_key)).not.toBe(mine);
  });

  test("rejects a host's key with 403, and a missing or malformed Idempotency-Key with 400", async () => {
    const host = await registerHost(backend, org.token);
    expect(await outcome(host.api_key)).toBe("wrong_key_kind");
    expect(await outcome(oldKey, "7")).toBe("missing_idempotency_key");
    expect((await backend.call("POST", "/api/clusters/rotate-key", { key: oldKey })).json().error).toBe("missing_idempotency_key");
  });

  test("after many rotations one key is current, and only the last two were ever accepted together", async () => {
    const all = [oldKey];
    for (let round = 0; round < 3; round++) {
      all.push(await outcome(all.at(-1) ?? "", randomUUID()));
      expect(await Promise.all(all.map(beat))).toEqual([...all.slice(0, -2).map(() => "revoked_key"), 204, 204]);
      backend.clock.ms += 5 * MINUTE_MS;
    }
    expect(await Promise.all(all.map(beat))).toEqual([...all.slice(0, -1).map(() => "revoked_key"), 204]);
  });
});
