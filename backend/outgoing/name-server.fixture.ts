// A DNS server on loopback with responses that a test sets, for names that change their addresses.
import { createSocket } from "node:dgram";
import { once } from "node:events";

export interface NameServer extends AsyncDisposable {
  /** Address to configure in a resolver. */
  readonly address: string;
  /** Requested names (IPv4) so far. */
  readonly asked: readonly string[];
}

/** `answer`: the IPv4 addresses of a name; an empty list: there is no such name; undefined: no response. */
export async function nameServer(answer: (name: string) => readonly string[] | undefined): Promise<NameServer> {
  const socket = createSocket("udp4");
  const asked: string[] = [];
  socket.on("message", (query, from) => {
    const { name, end } = nameIn(query);
    const isIpv4 = query.readUInt16BE(end) === 1;
    if (isIpv4) asked.push(name);
    const addresses = isIpv4 ? answer(name) : answer === undefined ? undefined : [];
    if (addresses) socket.send(answered(query.subarray(0, end + 4), addresses), from.port, from.address);
  });
  socket.bind(0, "127.0.0.1");
  await once(socket, "listening");
  return {
    address: `127.0.0.1:${socket.address().port}`,
    asked,
    [Symbol.asyncDispose]: async () => {
      socket.close();
      await once(socket, "close");
    },
  };
}

function nameIn(query: Buffer): { name: string; end: number } {
  const labels: string[] = [];
  let at = 12;
  for (let length = query[at] ?? 0; length > 0; length = query[at] ?? 0) {
    labels.push(query.toString("latin1", at + 1, at + 1 + length));
    at += 1 + length;
  }
  return { name: labels.join("."), end: at + 1 };
}

/** RFC 1035: the question, then one record per address, with a TTL of zero. */
function answered(question: Buffer, addresses: readonly string[]): Buffer {
  const head = Buffer.from(question);
  head.writeUInt16BE(addresses.length === 0 ? 0x8183 : 0x8180, 2);
  head.writeUInt16BE(1, 4);
  head.writeUInt16BE(addresses.length, 6);
  head.writeUInt32BE(0, 8);
  const records = addresses.map((address) => {
    const fixed = Buffer.from([0xc0, 0x0c, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4]);
    return Buffer.concat([fixed, Buffer.from(address.split(".").map(Number))]);
  });
  return Buffer.concat([head, ...records]);
}
