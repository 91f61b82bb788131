// The backup command's side of the snapshot protocol: requests a snapshot of the engines from the running backend. Invariant: the snapshot
// exists while the connection is open; `lost` aborts when it ends.
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { StartError } from "../../errors.ts";
import { type SnapshotResponse, firstLine, type BackupSnapshot, REQUEST, socketIn } from "./snapshot-protocol.ts";

/** Long, because the engines write their memory to disk first. */
const RESPONSE_TIMEOUT_MS = 180_000;
/** The backend also releases the snapshot by itself. */
const RELEASE_TIMEOUT_MS = 30_000;

/** A snapshot that the backend keeps for this process. Disposal resolves when the backend has released it. */
export interface OpenSnapshot extends AsyncDisposable {
  readonly snapshot: BackupSnapshot;
  /** Aborts if the backend releases the snapshot before it is asked to. */
  readonly lost: AbortSignal;
}

/** Undefined if no backend runs here. Throws StartError if the backend refuses. */
export async function requestSnapshot(dataDir: string): Promise<OpenSnapshot | undefined> {
  const socket = await connectToBackend(dataDir);
  if (!socket) return undefined;
  const lost = new AbortController();
  socket.once("close", () =>
    lost.abort(new StartError("the backend stopped or released its snapshot; the partial backup was removed: run the command again")),
  );
  socket.on("error", () => undefined);
  socket.write(REQUEST);
  const line = await firstLine(socket, RESPONSE_TIMEOUT_MS);
  const response = line === "" ? { refused: "the backend did not respond: see its log" } : (JSON.parse(line) as SnapshotResponse);
  if ("refused" in response) {
    socket.destroy();
    throw new StartError(response.refused);
  }
  return {
    snapshot: response.snapshot,
    lost: lost.signal,
    async [Symbol.asyncDispose]() {
      socket.end();
      if (!socket.destroyed) await once(socket, "close", { signal: AbortSignal.timeout(RELEASE_TIMEOUT_MS) }).catch(() => undefined);
      socket.destroy();
    },
  };
}

async function connectToBackend(dataDir: string): Promise<Socket | undefined> {
  // If this user cannot read the folder, the subsequent lock fails and reports that.
  await using address = await socketIn(dataDir).catch(() => undefined);
  if (!address) return undefined;
  const socket = connect(address.path);
  try {
    await once(socket, "connect");
    return socket;
  } catch (error) {
    socket.destroy();
    if (["ENOENT", "ECONNREFUSED", "ENOTSOCK"].includes(String((error as NodeJS.ErrnoException).code))) return undefined;
    throw new StartError(
      `cannot connect to the backend of ${dataDir} (${(error as Error).message}): run this command as the backend's user`,
      {
        cause: error,
      },
    );
  }
}
