// Checks the identity of the host agent: its credentials file and key.
import { accessSync, constants, existsSync, statSync } from "node:fs";
import { nearestExisting } from "../../../common/files.ts";
import { CredentialsFile, type HostCredentials } from "../../credentials/file.ts";
import type { BackendApi } from "../../upstream/backend-api.ts";
import { HOST_HEARTBEAT_PATH } from "../../../common/protocol/enrolment.ts";
import type { EnrolmentToken } from "../../enrolment-token.ts";
import type { Settings } from "../../settings.ts";
import { readMachineId } from "../../identity/identity.ts";
import { checkKey } from "./backend.ts";
import { type Check, type Finding, messageOf } from "./check.ts";

const NEW_TOKEN =
  "create an install token (`atherops tokens create`), set INSTALL_TOKEN to it, and restart the agent, which then enrols again";

export function hostChecks(settings: Settings, token: EnrolmentToken | undefined, backend: Pick<BackendApi, "heartbeat">): Check[] {
  return [() => checkCredentialsFile(settings.host?.credentialsFile ?? "", token, backend)];
}

export async function checkCredentialsFile(
  path: string,
  token: EnrolmentToken | undefined,
  backend: Pick<BackendApi, "heartbeat">,
): Promise<Finding[]> {
  const name = "credentials";
  // The mode is read first, because CredentialsFile.read() sets it to 0600.
  const mode = existsSync(path) ? statSync(path).mode & 0o777 : 0o600;
  const file = new CredentialsFile(path);
  let stored: HostCredentials;
  try {
    stored = file.read();
  } catch (error) {
    return [{ name, status: "fail", detail: messageOf(error), advice: "run as the agent's user, or restore the file" }];
  }
  const machine = machineFinding(stored, readMachineId());
  const modeFindings = (mode & 0o077) === 0 ? [] : [modeFinding(file, mode)];
  if (stored.credential) {
    const enrolled: Finding = { name, status: "ok", detail: `${path} has the key of host ${stored.credential.id}` };
    return [...modeFindings, enrolled, ...machine, ...(await checkKey(stored.credential, HOST_HEARTBEAT_PATH, backend, NEW_TOKEN))];
  }
  return [...modeFindings, notEnrolled(path, token)];
}

/** Warns if the key belongs to another host, because this host is a clone of it. */
function machineFinding({ credential, machineId }: HostCredentials, systemId: string | undefined): Finding[] {
  if (!credential || machineId === undefined || systemId === undefined || machineId === systemId) return [];
  const detail = `/etc/machine-id is ${systemId}, and the key was made for ${machineId}: it may be the key of another host`;
  return [{ name: "machine id", status: "warn", detail, advice: `if this host is a clone, it needs its own key: ${NEW_TOKEN}` }];
}

/**
 * Call after CredentialsFile.read(), which sets the mode to 0600 unless the file is on a read-only mount and only its group can read it.
 */
function modeFinding({ path, isOpenToGroup }: CredentialsFile, mode: number): Finding {
  const modeText = `(mode ${mode.toString(8)})`;
  const [detail, advice] = isOpenToGroup
    ? [`the group of ${path} may read the key ${modeText}`, "mount the file with mode 0400, unless the agent's own group needs access"]
    : [`${path} was open to others ${modeText}`, "its mode was changed to 0600; create a new key if others may have read this one"];
  return { name: "credentials", status: "warn", detail, advice };
}

function notEnrolled(path: string, token: EnrolmentToken | undefined): Finding {
  const name = "credentials";
  if (!token) {
    const advice = "create an install token as an administrator (`atherops tokens create`), set INSTALL_TOKEN to it, and start the agent";
    return { name, status: "fail", detail: `this host is not enrolled: no key in ${path}, no INSTALL_TOKEN and no IDENTITY_TOKEN`, advice };
  }
  if (!isWritable(path)) {
    const advice = "set CREDENTIALS_FILE to a writable path, or run as a user who can write this one; enrolment needs a writable file";
    return { name, status: "fail", detail: `${path} cannot be written`, advice };
  }
  const advice = `start the agent: ${token.isIdentity ? "IDENTITY_TOKEN" : "INSTALL_TOKEN"} is set`;
  return { name, status: "warn", detail: "not enrolled yet", advice };
}

/** If folders are missing, checks the nearest existing parent, because the agent creates the folders below it. */
function isWritable(path: string): boolean {
  try {
    accessSync(nearestExisting(path), constants.W_OK);
    return true;
  } catch {
    return false;
  }
}
