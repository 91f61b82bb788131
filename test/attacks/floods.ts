// Attacks of which every byte is work: requests that are pipelined, bodies in pieces of one byte, small frames, and responses that no
// client reads. Each wave lasts about two seconds.
import { randomBytes } from "node:crypto";
import { connect, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import { gzipSync, zstdCompressSync } from "node:zlib";
import type { Attack, Attacker } from "./attack.ts";

const WAVE_MS = 2000;
const CHUNKED = "Transfer-Encoding: chunked\r\n";
const GET = "GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n";

const post = (path: string, headers: string): string => `POST ${path} HTTP/1.1\r\nHost: x\r\n${headers}\r\n`;
const inChunks = (bytes: Buffer): Buffer => Buffer.concat(Array.from(bytes, (byte) => Buffer.from([0x31, 0x0d, 0x0a, byte, 0x0d, 0x0a])));
const CHUNKS = inChunks(Buffer.alloc(20_000, 0x20));
/** Of bytes that cannot be compressed, so that the decoder has something to do with each. */
const COMPRESSED = { gzip: inChunks(gzipSync(randomBytes(20_000))), zstd: inChunks(zstdCompressSync(randomBytes(20_000))) };

interface Flood {
  readonly url?: string | undefined;
  readonly head: string;
  /** Sent again and again. */
  readonly rest?: Buffer;
  readonly isRead?: boolean;
}

/** Keeps so many connections open, each of which sends as much as the other side takes. */
export async function flood(attacker: Attacker, count: number, { url, head, rest, isRead = true }: Flood): Promise<void> {
  const { hostname, port, protocol } = new URL(url ?? attacker.target.apiUrl);
  const until = Date.now() + WAVE_MS;
  await attacker.many(count, count, async () => {
    while (Date.now() < until && !attacker.over) {
      const options = { host: hostname, port: Number(port), rejectUnauthorized: false };
      const socket = protocol === "https:" ? connectTls(options) : connect(options);
      await floodOnce(attacker, socket, { head, isRead, ...(rest && { rest }) }, until);
      // Without a pause, opening connections would be the attack.
      await attacker.pause(50);
    }
  });
}

async function floodOnce(attacker: Attacker, socket: Socket, { head, rest, isRead }: Flood, until: number): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, until - Date.now());
  socket.once("close", () => resolve()).on("error", () => undefined);
  if (isRead) socket.resume();
  else socket.pause();
  socket.write(head, "latin1");
  const send = (): void => {
    if (!rest || socket.destroyed || Date.now() > until) return;
    if (socket.write(rest)) setImmediate(send);
    else socket.once("drain", send);
  };
  send();
  await promise;
  attacker.count(socket.destroyed ? "closed" : "held to the end");
  clearTimeout(timer);
  socket.destroy();
}

const attack = (what: string, wave: Attack["wave"]): Attack => ({ group: "more", what, everyMs: WAVE_MS, wave });

export const sixteenPipelined = attack(
  "200 connections that each ask 16 times for /openapi.json in one packet, and read the answers, or do not",
  (attacker, turn) => flood(attacker, 200, { head: GET.repeat(16), isRead: turn % 2 === 0 }),
);

export const smallChunks = attack("16 connections with a refused body in chunks of one byte", (attacker) =>
  flood(attacker, 16, { head: post("/no/such/path", CHUNKED), rest: CHUNKS }),
);

export const chunksBehindAnswer = attack(
  "60 connections that do not read their answers, and behind the requests a body in chunks of one byte",
  (attacker) => flood(attacker, 60, { head: GET.repeat(12) + post("/no/such/path", CHUNKED), rest: CHUNKS, isRead: false }),
);

export const healthChunks = attack("the health port: 16 connections with a body in chunks of one byte", (attacker) =>
  flood(attacker, 16, { url: attacker.target.healthUrl, head: post("/healthz", CHUNKED), rest: CHUNKS }),
);

export const compressedChunks = (path = "/v1/logs"): Attack =>
  attack("60 connections with an ingest token and a body of gzip or zstd in chunks of one byte", (attacker, turn) => {
    const encoding = turn % 2 === 0 ? "gzip" : "zstd";
    const headers = `X-API-Key: ${attacker.target.ingestToken}\r\nContent-Type: application/x-protobuf\r\nContent-Encoding: ${encoding}\r\n`;
    return flood(attacker, 60, { head: post(path, headers + CHUNKED), rest: COMPRESSED[encoding] });
  });

const UPGRADE = `Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: ${"A".repeat(22)}==\r\n`;
/** Empty pongs. */
const PONGS = Buffer.alloc(60_000, Buffer.from([0x8a, 0x80, 0, 0, 0, 0]));

export const smallFrames = (path = `/query/loki/loki/api/v1/tail?query=${encodeURIComponent('{a="b"}')}`): Attack =>
  attack("8 tails whose clients send empty WebSocket frames", (attacker) =>
    flood(attacker, 8, {
      head: `GET ${path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${attacker.target.viewerToken}\r\n${UPGRADE}\r\n`,
      rest: PONGS,
    }),
  );

/** Each write of one byte is a TLS record. */
export const tlsRecords = (url: string): Attack =>
  attack("300 TLS connections at a time that shake hands, send a body in records of one byte, and leave", async (attacker) => {
    await flood(attacker, 300, { url, head: post("/no/such/path", CHUNKED), rest: CHUNKS.subarray(0, 1) });
  });
