// POST /ingest/agents/heartbeat: keeps a host marked online and takes its word on which remote configuration is in force. Invariant:
// which host it is comes from the key alone. Registered by routes.ts.
import type { FastifyInstance } from "fastify";
import { HOST_HEARTBEAT_PATH, type Heartbeat, ORG_ID_HEADER } from "../../agent/protocol/enrolment.ts";
import { clipped, collectorOf, HEARTBEAT_BYTES, HEARTBEAT_SCHEMA, intervalOf } from "./heartbeat.ts";
import type { EnrolmentDeps } from "./deps.ts";
import { bodyIsOptional, NOTHING, signer } from "./schema.ts";

const schema = {
  summary: "A host's agent is alive",
  description: "The body is optional and informational.",
  described: { bodyIsOptional: true },
  tags: ["enrolment"],
  security: [{ signature: [] }],
  body: HEARTBEAT_SCHEMA,
  response: NOTHING,
} as const;

export function registerHostHeartbeat(app: FastifyInstance, { db, guards, now }: EnrolmentDeps): void {
  app.post<{ Body: Heartbeat }>(
    HOST_HEARTBEAT_PATH,
    { schema, bodyLimit: HEARTBEAT_BYTES, onRequest: guards.signed("host"), preValidation: bodyIsOptional },
    async (request, reply) => {
      const heartbeat = request.body;
      const collector = collectorOf(heartbeat);
      const version = clipped(heartbeat.agent_version, 100);
      await db
        .updateTable("hosts")
        .set({
          last_heartbeat: new Date(now()),
          heartbeat_interval_s: intervalOf(heartbeat),
          collector: collector && JSON.stringify(collector),
          config_in_force: clipped(heartbeat.config?.version, 50) ?? null,
          config_error: clipped(heartbeat.config?.error, 1000) ?? null,
          ...(version && { agent_version: version }),
        })
        .where("id", "=", signer(request).hostId)
        .execute();
      return await reply.code(204).header(ORG_ID_HEADER, signer(request).orgId).send();
    },
  );
}
