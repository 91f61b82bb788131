// What makes a host the same host across reinstallations of the agent. Clones of a virtual machine often share it.
import { readFileSync } from "node:fs";

/** Undefined if the system has none. */
export function readMachineId(): string | undefined {
  try {
    return readFileSync("/etc/machine-id", "utf8").trim() || undefined;
  } catch {
    return undefined;
  }
}
