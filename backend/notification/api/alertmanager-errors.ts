// Errors of Alertmanager's API. What is made from its description by go-swagger, `amtool` first of all, says `Accept: application/json` and
// can read nothing but a string where a request is 400, 404 or 500; of other statuses it reads nothing. Grafana does not send it, and
// shows the `message` of our form (pkg/services/ngalert/api/util.go). Invariant: all other clients get our format, as everywhere.
import type { FastifyReply, FastifyRequest } from "fastify";
import type { RouteDeclaration } from "../../http/route.ts";

const STATUSES = [400, 404, 500];
const TEXT = { type: "string", description: "the message alone, for who sends `Accept: application/json`, as amtool does" };

export const ALERTMANAGER_ERRORS: RouteDeclaration["otherErrors"] = {
  schemas: Object.fromEntries(STATUSES.map((status) => [status, TEXT])),
  onSend: toAlertmanagerError,
};

async function toAlertmanagerError(request: FastifyRequest, reply: FastifyReply, payload: unknown): Promise<unknown> {
  const isAsked = request.headers.accept?.trim().toLowerCase() === "application/json";
  if (!isAsked || !STATUSES.includes(reply.statusCode) || typeof payload !== "string") return payload;
  const { message } = JSON.parse(payload) as { message: string };
  return JSON.stringify(message);
}
