// The senders of the benchmark `small-requests`, which share the cores with the backend. Invariant: both clients send the same requests and
// report the status of each response. The raw client uses less than half of the CPU of the other, which leaves more for the backend.
import { Pool } from "undici";
import { sign } from "../../../common/protocol/signature.ts";
import { Connections } from "../steady-memory/idle-connections.ts";

export const CLIENTS = ["raw", "undici"] as const;
export type ClientName = (typeof CLIENTS)[number];

export interface Client extends AsyncDisposable {
  /** Returns the status, or the name of the error if the connection failed twice. */
  post(body: Buffer): Promise<string>;
}

export interface Target {
  readonly url: string;
  readonly path: string;
  readonly apiKey: string;
}

export const OPEN_CLIENT: Readonly<Record<ClientName, (target: Target, connections: number) => Client>> = {
  /** Heads are made and signed once a second; head and body are one write, and of an answer only the status is read. */
  raw({ url, path, apiKey }) {
    const connections = new Connections(url);
    let [head, madeFor, madeS] = [Buffer.alloc(0), -1, -1];
    return {
      async post(body) {
        const nowS = Math.floor(Date.now() / 1000);
        if (nowS !== madeS || body.length !== madeFor) {
          const fields = { host: new URL(url).host, ...sign(apiKey, "POST", path, nowS), "content-type": "application/json" };
          const lines = Object.entries({ ...fields, "content-length": body.length }).map(([name, value]) => `${name}: ${value}\r\n`);
          [head, madeFor, madeS] = [Buffer.from(`POST ${path} HTTP/1.1\r\n${lines.join("")}\r\n`), body.length, nowS];
        }
        return await connections.send(Buffer.concat([head, body]));
      },
      async [Symbol.asyncDispose]() {
        connections[Symbol.dispose]();
      },
    };
  },
  undici({ url, path, apiKey }, connections) {
    const pool = new Pool(url, { connections });
    return {
      async post(body) {
        const headers = { ...sign(apiKey, "POST", path, Date.now() / 1000), "content-type": "application/json" };
        const answer = await pool.request({ method: "POST", path, headers, body });
        await answer.body.dump();
        return String(answer.statusCode);
      },
      [Symbol.asyncDispose]: () => pool.close(),
    };
  },
};
