// GET and POST /api/orgs: an operator sees and creates organisations, each with its first administrator.
import type { FastifyInstance } from "fastify";
import { audit } from "../auth/audit-log.ts";
import { nameSchema, TIME_SCHEMA, UUID_SCHEMA } from "../http/schemas.ts";
import { hashPassword, PASSWORD_SCHEMA } from "./password.ts";
import type { AccountDeps } from "./deps.ts";
import { EMAIL_SCHEMA, insertOrg, insertUser, requireFreeEmail, requireFreeName } from "./table.ts";

const org = {
  type: "object",
  required: ["org_id", "name"],
  properties: { org_id: UUID_SCHEMA, name: { type: "string" }, created_at: TIME_SCHEMA },
} as const;

const createSchema = {
  summary: "Create an organisation with its first administrator",
  tags: ["accounts"],
  security: [{ session: [] }],
  body: {
    type: "object",
    additionalProperties: false,
    required: ["name", "admin"],
    properties: {
      name: nameSchema(200),
      admin: {
        type: "object",
        additionalProperties: false,
        required: ["email", "password"],
        properties: { email: EMAIL_SCHEMA, password: PASSWORD_SCHEMA },
      },
    },
  },
  response: { 201: org },
} as const;

const listSchema = {
  summary: "All organisations",
  tags: ["accounts"],
  security: [{ session: [] }],
  response: { 200: { type: "array", items: org } },
} as const;

interface NewOrg {
  name: string;
  admin: { email: string; password: string };
}

export function registerOrgRoutes(app: FastifyInstance, { db, guards, hashTurns, now = Date.now }: AccountDeps): void {
  const onRequest = guards.user("operator");

  app.get("/api/orgs", { schema: listSchema, onRequest }, async () => {
    const rows = await db.selectFrom("orgs").selectAll().orderBy("created_at").orderBy("id").execute();
    return rows.map((row) => ({ org_id: row.id, name: row.name, created_at: row.created_at.toISOString() }));
  });

  app.post<{ Body: NewOrg }>("/api/orgs", { schema: createSchema, onRequest }, async (request, reply) => {
    const { name, admin } = request.body;
    await requireFreeName(db, name);
    await requireFreeEmail(db, admin.email);
    const passwordHash = await hashTurns.run(request, reply, () => hashPassword(admin.password));
    const created = await db.transaction().execute(async (trx) => {
      const row = await insertOrg(trx, name, new Date(now()));
      const user = { org_id: row.id, email: admin.email, password_hash: passwordHash, role: "admin" as const };
      return { row, user: await insertUser(trx, user, new Date(now())) };
    });
    audit(request, "org.create", { created_org_id: created.row.id, name, admin_user_id: created.user.id });
    return await reply.code(201).send({ org_id: created.row.id, name, created_at: created.row.created_at.toISOString() });
  });
}
