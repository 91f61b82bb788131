// Helpers for the end-to-end tests: kubectl and helm as a user runs them, and calls through a port-forward that reconnects when its pod is
// replaced. Needs KUBECONFIG (hack/test.ts sets it).
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { execa } from "execa";
import { toolPath } from "../../hack/fetch-tools.ts";
import { eventually, freePorts } from "../fixtures/processes.ts";

export const NAMESPACE = "atherops-e2e";
const helmProgram = await toolPath("helm");
const kubectlProgram = process.env["KUBECTL_PATH"] ?? "kubectl";

/** Returns stdout; throws an error with the whole output. `input` is written to stdin. */
export async function kubectl(args: string[], input?: string): Promise<string> {
  const { stdout } = await execa(kubectlProgram, args, { input: input ?? "" });
  return stdout;
}

export async function helm(...args: string[]): Promise<string> {
  const { stdout } = await execa(helmProgram, ["--namespace", NAMESPACE, ...args]);
  return stdout;
}

export async function apply(...documents: object[]): Promise<void> {
  await kubectl(["apply", "--server-side", "-f", "-"], JSON.stringify({ apiVersion: "v1", kind: "List", items: documents }));
}

// oxlint-disable-next-line typescript/no-explicit-any -- Kubernetes objects of many kinds
export async function get(...args: string[]): Promise<any> {
  return JSON.parse(await kubectl(["-n", NAMESPACE, "get", ...args, "-o", "json"]));
}

/** A port-forward to a Service, which reconnects when it breaks. */
export class PortForward implements AsyncDisposable {
  readonly url: string;
  readonly #args: string[];
  #child: ChildProcess;
  #closed = false;

  private constructor(args: string[], port: number) {
    this.#args = args;
    this.url = `http://127.0.0.1:${port}`;
    this.#child = this.#start();
  }

  static async open(service: string, port: number): Promise<PortForward> {
    const [local = 0] = await freePorts(1);
    const forward = new PortForward(["-n", NAMESPACE, "port-forward", `service/${service}`, `${local}:${port}`], local);
    await eventually(`a forward to ${service}`, async () => (await fetch(forward.url)).status > 0, 60_000);
    return forward;
  }

  #start(): ChildProcess {
    const child = spawn(kubectlProgram, this.#args, { stdio: "ignore" });
    child.once("exit", () => {
      if (!this.#closed) setTimeout(() => (this.#child = this.#start()), 300);
    });
    return child;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true;
    if (this.#child.exitCode !== null) return;
    this.#child.kill();
    await once(this.#child, "exit");
  }
}
