// Answers large JSON documents, one request of an organisation at a time. Invariant: no work is started for a client that has disconnected.
import type { FastifyReply, FastifyRequest } from "fastify";
import type { FairQueue } from "../admission/fair-queue.ts";
import { goneSignal } from "./http-client.ts";
import { readerOf } from "./request-identity.ts";
import type { ResponseBudget } from "./response-budget.ts";

export async function sendQueued(
  { queue, responses }: { readonly queue: FairQueue; readonly responses: ResponseBudget },
  request: FastifyRequest,
  reply: FastifyReply,
  read: (orgId: string) => Promise<object>,
): Promise<FastifyReply> {
  const { orgId } = readerOf(request);
  const json = await queue.run(orgId, goneSignal(reply), async () => {
    responses.admit(orgId, reply);
    return Buffer.from(JSON.stringify(await read(orgId)));
  });
  return responses.send(orgId, reply.type("application/json"), [json]);
}
