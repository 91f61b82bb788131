// Whether an engine answers: the status of one GET. Invariants: a connection of its own, so it waits for nothing that tenants ask; nothing of
// the answer's body is read. Not by http-pool.ts: V8 optimises its parser of answers with the first of them, which takes 60 ms of CPU time
// and 12 MB that stay, and a backend without load gets no other answers.
import { request } from "../../common/http.ts";

export interface StatusOptions {
  readonly headers?: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
}

/** `url`: http or https, without a login. Rejects when there is no answer in time. */
export async function statusOf(url: string, { headers, timeoutMs }: StatusOptions): Promise<number> {
  const { promise, resolve, reject } = Promise.withResolvers<number>();
  const asking = url.startsWith("https:") ? process.getBuiltinModule("node:https").request : request;
  const asked = asking(url, { headers, agent: false }, (answer) => resolve(answer.statusCode ?? 0));
  asked.on("error", reject).end();
  const timer = setTimeout(() => reject(new Error(`no answer within ${timeoutMs} ms`)), timeoutMs);
  try {
    return await promise;
  } finally {
    clearTimeout(timer);
    asked.destroy();
  }
}
