// Configuration of programs that send to or read from this backend, with its address and a token filled in.

export function sdkEnvironment(url: string, token: string): string {
  return [
    `export OTEL_EXPORTER_OTLP_ENDPOINT=${url}`,
    "export OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf",
    `export OTEL_EXPORTER_OTLP_HEADERS="x-api-key=${token}"`,
    "export OTEL_SERVICE_NAME=my-service",
  ].join("\n");
}

export const SDK_STARTS = [
  [
    "Node.js",
    "npm install @opentelemetry/auto-instrumentations-node\nnode --require @opentelemetry/auto-instrumentations-node/register app.js",
  ],
  [
    "Python",
    "pip install opentelemetry-distro opentelemetry-exporter-otlp\nopentelemetry-bootstrap -a install\nopentelemetry-instrument python app.py",
  ],
  [
    "Java",
    "curl -LO https://github.com/open-telemetry/opentelemetry-java-instrumentation/releases/latest/download/opentelemetry-javaagent.jar\njava -javaagent:opentelemetry-javaagent.jar -jar app.jar",
  ],
  ["Go, .NET and others", "# The exporter otlp of each SDK reads these variables: https://opentelemetry.io/docs/languages/"],
] as const;

export function remoteWrite(url: string, token: string): string {
  return ["remote_write:", `  - url: ${url}/api/v1/write`, "    authorization:", `      credentials: ${token}`].join("\n");
}

/** The four data sources of Grafana, as a file that it reads at start. */
export function dataSources(url: string, token: string): string {
  const sources = [
    ["Prometheus", "prometheus", "/query/prometheus"],
    ["Loki", "loki", "/query/loki"],
    ["Jaeger", "jaeger", "/query/jaeger"],
    ["Alertmanager", "alertmanager", "/alerting/alertmanager"],
  ].map(([name, type, path]) =>
    [
      `  - name: AtherOps ${name}`,
      `    type: ${type}`,
      `    url: ${url}${path}`,
      "    access: proxy",
      `    jsonData: { httpHeaderName1: Authorization${type === "alertmanager" ? ", implementation: prometheus" : ""} }`,
      `    secureJsonData: { httpHeaderValue1: "Bearer ${token}" }`,
    ].join("\n"),
  );
  return ["apiVersion: 1", "datasources:", ...sources].join("\n");
}
