// A process with the listeners of the backend and all its routes, but without engines, for attacks on the listeners themselves. It sends its
// addresses to its parent, and its CPU time and memory when asked.
import { join } from "node:path";
import type { FastifyRequest } from "fastify";
import { alertingRoutes, apiRoutes } from "../../hack/openapi.ts";
import { readBody } from "../../backend/ingest/body.ts";
import { GrpcServer } from "../../backend/ingest/grpc/grpc-server.ts";
import { ByteBudget } from "../../backend/admission/byte-budget.ts";
import { closeRoutes, createApp } from "../../backend/http/app.ts";
import { Connections } from "../../backend/http/server-connections.ts";
import { acceptWebSocket } from "../../backend/http/websocket.ts";
import { listenInternally } from "../../backend/http/internal-listener.ts";
import { createLog } from "../../backend/log.ts";
import { makeCertificate } from "../fixtures/certificate.ts";

export interface FloodedServer {
  readonly apiUrl: string;
  readonly alertingUrl: string;
  readonly tlsUrl: string;
  readonly healthUrl: string;
  readonly grpcUrl: string;
}
export interface Used {
  readonly cpuMs: number;
  readonly rssMiB: number;
}

const LOOPBACK = { host: "127.0.0.1", port: 0 };
const log = createLog("silent");
const budget = new ByteBudget(512 * 1024 * 1024);

async function serve(folder: string): Promise<FloodedServer> {
  const [api, alerting] = [await apiRoutes(), await alertingRoutes()];
  api.get("/trivial", async () => ({ ok: true }));
  api.get("/followed", async (request, reply) => void (await acceptWebSocket(request, reply)));
  api.addContentTypeParser("application/x-protobuf", async ({ raw, headers }: FastifyRequest) => {
    using reservation = budget.open("org");
    return await readBody({ request: raw, declaredBytes: 0, encoding: headers["content-encoding"] }, reservation);
  });
  api.post("/read", async () => ({ ok: true }));
  const certificate = { certFile: join(folder, "crt"), keyFile: join(folder, "key") };
  makeCertificate(certificate.certFile, certificate.keyFile, "test");
  const tls = await createApp({ log, tls: certificate });
  for (const app of [api, alerting, tls]) await closeRoutes(app);
  const health = await listenInternally("HEALTH_LISTEN", LOOPBACK, 512, (_request, response) => response.end("ok"));
  const grpc = await GrpcServer.start({
    listen: LOOPBACK,
    connections: new Connections(1000, log),
    trustedProxies: [],
    log,
    methods: new Map([
      [
        "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
        async ({ stream, authenticated }) => {
          authenticated("org");
          using reservation = budget.open("org");
          return await readBody({ request: stream, declaredBytes: 0, encoding: undefined }, reservation);
        },
      ],
    ]),
  });
  return {
    apiUrl: await api.listen(LOOPBACK),
    alertingUrl: await alerting.listen(LOOPBACK),
    tlsUrl: await tls.listen(LOOPBACK),
    healthUrl: `http://127.0.0.1:${health.port}`,
    grpcUrl: `http://127.0.0.1:${grpc.port}`,
  };
}

process.on("message", () => {
  const { user, system } = process.cpuUsage();
  process.send?.({ cpuMs: (user + system) / 1000, rssMiB: process.memoryUsage.rss() / 1024 / 1024 } satisfies Used);
});
process.send?.(await serve(process.argv[2] ?? ""));
