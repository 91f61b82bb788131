// Further attacks with an administrator's session or a cluster's key: resources created without end, and heartbeats without a pause.
import { randomUUID } from "node:crypto";
import type { Attack } from "./attack.ts";

export const mintedCredentials: Attack = {
  group: "more",
  what: "200 install tokens, 200 keys and 50 users at a time, up to some thousands; then their lists",
  everyMs: 5000,
  async wave(attacker) {
    const { adminToken: bearer } = attacker.target;
    const post = (path: string, body: object) => attacker.call({ method: "POST", path, bearer, body });
    await Promise.all([
      attacker.many(200, 10, () => post("/api/install-tokens", { ttl: "1h" })),
      attacker.many(200, 10, () => post("/api/keys", { name: randomUUID() })),
      attacker.many(50, 10, () =>
        post("/api/users", { email: `${randomUUID()}@attacker.example`, password: `${randomUUID()}-A1`, role: "viewer" }),
      ),
    ]);
    const lists = ["/api/install-tokens", "/api/keys", "/api/users", "/api/clusters", "/api/v1/agents"];
    await attacker.many(20, 10, (index) => attacker.call({ method: "GET", path: lists[index % lists.length] ?? "", bearer }));
  },
};

export const heartbeatFlood: Attack = {
  group: "more",
  what: "1,000 heartbeats of one node, 100 at once; rotations with a new idempotency key each, 50 at once",
  everyMs: 2000,
  async wave(attacker) {
    const { clusterKey: key } = attacker.target;
    await attacker.many(1000, 100, () =>
      attacker.call({ method: "POST", path: "/heartbeat", key, body: { node: "one", agent_version: "1" } }),
    );
    await attacker.many(50, 50, () =>
      attacker.call({ method: "POST", path: "/api/clusters/rotate-key", key, headers: { "idempotency-key": randomUUID() } }),
    );
  },
};

export const ruleChurn: Attack = {
  group: "more",
  what: "rules made, changed and deleted without a pause, eight at once: the file of rules, its reloads, lines of audit",
  everyMs: 0,
  async wave(attacker) {
    const { adminToken: bearer } = attacker.target;
    await attacker.many(40, 8, async () => {
      const body = { name: attacker.serial(), severity: "info", expr: "vector(1) > 0" };
      await attacker.call({ method: "POST", path: "/alerting/rules", bearer, body });
    });
    await attacker.pause(500);
  },
};
