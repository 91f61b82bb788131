// The backup command's side: asks the running backend to hold one moment of its engines. Invariant: the moment is held for as long as the
// connection is open; whoever copies learns when it is not any more.
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { StartError } from "../../startup-error.ts";
import { type Answer, firstLine, type Held, QUESTION, socketIn } from "./held.ts";

/** The engines write what they have in memory first. */
const ANSWER_TIMEOUT_MS = 180_000;
/** The backend does so by itself, too. */
const LET_GO_TIMEOUT_MS = 30_000;

/** Disposing resolves when the backend has let go. */
export interface Hold extends AsyncDisposable {
  readonly held: Held;
  /** Aborts when the backend lets go before it is told to. */
  readonly lost: AbortSignal;
}

/** Undefined: no backend runs here. Throws StartError where it refuses. */
export async function askForHold(dataDir: string): Promise<Hold | undefined> {
  const socket = await connected(dataDir);
  if (!socket) return undefined;
  const lost = new AbortController();
  socket.once("close", () => lost.abort(new StartError("the backend has stopped, or let go: nothing is left of this backup; repeat it")));
  socket.on("error", () => undefined);
  socket.write(QUESTION);
  const line = await firstLine(socket, ANSWER_TIMEOUT_MS);
  const answer = line === "" ? { refused: "the backend did not answer: see its log" } : (JSON.parse(line) as Answer);
  if ("refused" in answer) {
    socket.destroy();
    throw new StartError(answer.refused);
  }
  return {
    held: answer.held,
    lost: lost.signal,
    async [Symbol.asyncDispose]() {
      socket.end();
      if (!socket.destroyed) await once(socket, "close", { signal: AbortSignal.timeout(LET_GO_TIMEOUT_MS) }).catch(() => undefined);
      socket.destroy();
    },
  };
}

async function connected(dataDir: string): Promise<Socket | undefined> {
  // A folder that this user cannot read is told of by whoever locks it.
  await using place = await socketIn(dataDir).catch(() => undefined);
  if (!place) return undefined;
  const socket = connect(place.path);
  try {
    await once(socket, "connect");
    return socket;
  } catch (error) {
    socket.destroy();
    if (["ENOENT", "ECONNREFUSED", "ENOTSOCK"].includes(String((error as NodeJS.ErrnoException).code))) return undefined;
    throw new StartError(`the backend of ${dataDir} cannot be asked (${(error as Error).message}): run this as its user`, { cause: error });
  }
}
