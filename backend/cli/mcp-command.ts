// `atherops mcp`: connects an assistant that starts programs to the backend's /mcp. It forwards each JSON-RPC message of a line of standard
// input, and prints the response as a line. Invariant: standard output has only protocol messages, because a client ends at anything else.
import { createInterface } from "node:readline";
import type { Command } from "commander";
import { readFileSync } from "node:fs";
import type { Client } from "./api-client.ts";
import { WrongUsage } from "./cli-error.ts";
import type { Console } from "./output.ts";

const META_VERSION = "io.modelcontextprotocol/protocolVersion";
const INTERNAL_ERROR = -32_603;

interface Message {
  readonly id?: string | number;
  readonly method?: string;
  readonly params?: { readonly name?: unknown; readonly uri?: unknown; readonly _meta?: Readonly<Record<string, unknown>> };
  readonly result?: { readonly protocolVersion?: unknown };
}

export function addMcpCommand(program: Command, console: Console): void {
  program
    .command("mcp")
    .description("serve the Model Context Protocol on standard input and output, for assistants (docs/mcp.md)")
    .option("--token-file <file>", "a read token, instead of the session of `atherops login`")
    .addHelpText(
      "after",
      `
Example, for an assistant that starts programs:
  { "mcpServers": { "atherops": { "command": "atherops", "args": ["--url", "https://telemetry.example.com", "mcp", "--token-file", "FILE"] } } }`,
    )
    .action(async ({ tokenFile }: { tokenFile?: string }) => {
      const client = console.client();
      if (tokenFile !== undefined) client.useToken(readToken(tokenFile));
      await bridge(console, client);
    });
}

function readToken(file: string): string {
  const token = readFileSync(file, "utf8").trim();
  if (!/^[\w.-]+$/.test(token)) throw new WrongUsage(`--token-file ${file}: does not contain a read token`);
  return token;
}

/** Ends with standard input, after the last response. */
async function bridge({ world }: Console, client: Client): Promise<void> {
  const pending = new Set<Promise<void>>();
  let negotiated: string | undefined;
  const forward = async (line: string): Promise<void> => {
    const message = parseMessage(line);
    try {
      for (const response of await client.postMessage("/mcp", line, headersOf(message, negotiated))) {
        const version = parseMessage(response)?.result?.protocolVersion;
        if (message?.method === "initialize" && typeof version === "string") negotiated = version;
        world.stdout.write(`${response}\n`);
      }
    } catch (error) {
      if (message?.id === undefined) return void world.stderr.write(`atherops: ${(error as Error).message}\n`);
      const failure = { jsonrpc: "2.0", id: message.id, error: { code: INTERNAL_ERROR, message: (error as Error).message } };
      world.stdout.write(`${JSON.stringify(failure)}\n`);
    }
  };
  for await (const line of createInterface({ input: world.stdin, crlfDelay: Number.POSITIVE_INFINITY })) {
    if (line.trim() === "") continue;
    const sent = forward(line).finally(() => pending.delete(sent));
    pending.add(sent);
    // The version of the protocol is in the response, and later requests name it.
    if (parseMessage(line)?.method === "initialize") await sent;
  }
  await Promise.all(pending);
}

/** Headers that repeat parts of the message, which the protocol requires from its revision 2026-07-28 on. */
function headersOf(message: Message | undefined, negotiated: string | undefined): Record<string, string> {
  const version = message?.params?._meta?.[META_VERSION] ?? negotiated;
  if (typeof version !== "string") return {};
  const name = message?.params?.name ?? message?.params?.uri;
  return {
    "mcp-protocol-version": version,
    ...(message?.method !== undefined && { "mcp-method": message.method }),
    ...(typeof name === "string" && { "mcp-name": encodeURI(name) }),
  };
}

function parseMessage(line: string): Message | undefined {
  try {
    return JSON.parse(line) as Message;
  } catch {
    return undefined;
  }
}
