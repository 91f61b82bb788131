// Further attacks without a key: connections that send little, nothing, or everything at once.
import { randomUUID } from "node:crypto";
import { sign } from "../../common/protocol/signature.ts";
import type { Attack, Attacker } from "./attack.ts";

async function opened(attacker: Attacker, count: number, perSecond: number, parts: () => string[], heldMs: number): Promise<void> {
  await attacker.many(count, count, async (index) => {
    await attacker.pause((index * 1000) / perSecond);
    await attacker.hold(parts(), heldMs);
  });
}

export const silentConnections: Attack = {
  group: "more",
  what: "4,000 connections that say nothing, or half a header, or ask once and are kept",
  everyMs: 60_000,
  async wave(attacker) {
    await Promise.all([
      opened(attacker, 1500, 150, () => [], 60_000),
      opened(attacker, 1500, 150, () => ["GET /query/logs HTTP/1.1\r\nHost: x\r\nX-Slow: "], 60_000),
      opened(attacker, 1000, 100, () => ["GET /no/such/path HTTP/1.1\r\nHost: x\r\n\r\n"], 60_000),
    ]);
  },
};

export const pipelined: Attack = {
  group: "more",
  what: "forty connections that each send 2,000 requests without reading: unknown paths, /openapi.json, log queries of a viewer",
  everyMs: 15_000,
  async wave(attacker) {
    const bearer = `Authorization: Bearer ${attacker.target.viewerToken}\r\n`;
    const paths = ["/no/such/path", "/openapi.json", "/query/logs?limit=500", "/query/prometheus/api/v1/labels"];
    await attacker.many(40, 40, async (index) => {
      const asked = `GET ${paths[index % paths.length]} HTTP/1.1\r\nHost: x\r\n${bearer}\r\n`;
      await attacker.hold([asked.repeat(2000)], 15_000, { read: false });
    });
  },
};

export const loginFlood: Attack = {
  group: "more",
  what: "without a key, from 50 addresses: 900 logins at once in bodies of 8 kB; 200 unknown keys; 100 bad install tokens",
  everyMs: 3000,
  async wave(attacker) {
    const padding = " ".repeat(7800);
    const login = (index: number) => {
      const email = index % 8 === 0 ? "admin@attacker.example" : `${randomUUID()}@nowhere.example`;
      const body = Buffer.from(`{${padding}"email":"${email}","password":"${randomUUID()}"}`);
      const headers = { "content-type": "application/json" };
      return attacker.call({ method: "POST", path: "/api/auth/login", from: index % 50, headers, body });
    };
    const register = () =>
      attacker.call({
        method: "POST",
        path: "/api/clusters/register",
        bearer: `it_${randomUUID()}`,
        headers: { "idempotency-key": randomUUID() },
        body: { cluster_name: "x", cluster_uid: randomUUID(), agent_version: "1" },
      });
    const ingest = () => attacker.call({ method: "POST", path: "/ingest", key: `ak_${randomUUID()}`, body: Buffer.from("m 1\n") });
    await Promise.all([attacker.many(900, 900, login), attacker.many(200, 100, ingest), attacker.many(100, 100, register)]);
  },
};

export const allConnections: Attack = {
  group: "more",
  what: "9,000 connections that are signed, each with a body that never comes: every place there is, at work",
  everyMs: 30_000,
  async wave(attacker) {
    const path = "/ingest";
    await attacker.many(9000, 9000, async (index) => {
      await attacker.pause(index / 2);
      const signed = Object.entries(sign(attacker.target.apiKey, "POST", path, Date.now() / 1000)).map(
        ([name, value]) => `${name}: ${value}`,
      );
      const head = `POST ${path} HTTP/1.1\r\nHost: x\r\n${signed.join("\r\n")}\r\nContent-Length: 1000\r\n\r\n`;
      await attacker.hold([head], 25_000);
    });
  },
};
