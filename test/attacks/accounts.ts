// Attacks on accounts and enrolment: passwords of users, invitations, and heartbeats of nodes that do not exist.
import { randomUUID } from "node:crypto";
import type { Attack } from "./attack.ts";

export const unknownUsersPasswords: Attack = {
  group: "first",
  what: "600 passwords for a user who is not there, fifty at once; 50 users who are there already",
  everyMs: 15_000,
  async wave(attacker) {
    const bearer = attacker.target.adminToken;
    const password = `${randomUUID()}-A1`;
    const unknownUser = `/api/users/${randomUUID()}/password`;
    await attacker.many(600, 50, () => attacker.call({ method: "PUT", path: unknownUser, bearer, body: { password } }));
    const body = { email: "admin@attacker.example", password, role: "viewer" };
    await attacker.many(50, 50, () => attacker.call({ method: "POST", path: "/api/users", bearer, body }));
  },
};

export const guessedInvitations: Attack = {
  group: "first",
  what: "600 invitations that do not exist, from 300 addresses, fifty at once, each shown and accepted; 300 wrong own passwords",
  everyMs: 5000,
  async wave(attacker) {
    const { viewerToken: bearer } = attacker.target;
    const password = `${randomUUID()}-A1`;
    await attacker.many(600, 50, async (at) => {
      const body = { token: randomUUID() };
      await attacker.call({ method: "POST", path: "/api/auth/invitation", from: at % 300, body });
      await attacker.call({ method: "POST", path: "/api/auth/invitation/accept", from: at % 300, body: { ...body, password } });
    });
    const body = { current: "wrong", password };
    await attacker.many(300, 50, (from) => attacker.call({ method: "PUT", path: "/api/auth/password", bearer, from, body }));
  },
};

export const inventedNodes: Attack = {
  group: "first",
  what: "a thousand heartbeats of nodes that do not exist, twenty at once; then the list of clusters ten times",
  everyMs: 5000,
  async wave(attacker) {
    const { clusterKey: key, viewerToken: bearer } = attacker.target;
    const collector = { state: "running", restarts: 0, last_error: "e".repeat(1000) };
    await attacker.many(1000, 20, () =>
      attacker.call({ method: "POST", path: "/heartbeat", key, body: { node: `node-${randomUUID()}`, agent_version: "1", collector } }),
    );
    await attacker.many(10, 2, () => attacker.call({ method: "GET", path: "/api/clusters", bearer }));
  },
};
