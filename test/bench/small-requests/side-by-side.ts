// Compares the CPU that small requests cost two checkouts. Both backends run at the same time and answer the same number of requests in turns
// of a fraction of a second, so that what else happens on the machine costs both the same.
import { join } from "node:path";
import { adminPassword, backendPlace, login, makeTenant, startBackend } from "../../fixtures/backend-process.ts";
import { cpuMs, mainThreadCpuMs, shown } from "../../fixtures/measure.ts";
import { INGEST_PATHS, LoadBody } from "../../fixtures/otlp-load.ts";
import { OPEN_CLIENT } from "./small-request-client.ts";

const REQUESTS_PER_TURN = 2000;
const WARM_UP_TURNS = 4;
/** Turns whose CPU is compared as one: the backends merge parts and collect garbage only now and then. */
const TURNS_PER_ROUND = 5;

export interface SideBySideOptions {
  /** The folders of both checkouts, with packages and kernels. */
  readonly checkouts: readonly [earlier: string, later: string];
  readonly folder: string;
  readonly clients: number;
  readonly records: number;
  readonly rounds: number;
}

/** µs of CPU a request in each round: of the whole process, and of its main thread. */
interface Cost {
  readonly all: number[];
  readonly main: number[];
}

interface Side extends AsyncDisposable {
  readonly cost: Cost;
  turn(): Promise<void>;
  /** Adds the CPU time since the last call, divided by the requests of a round. */
  endRound(): void;
}

/** Throws if a request is not answered with 204. */
export async function compareSideBySide(options: SideBySideOptions) {
  await using stack = new AsyncDisposableStack();
  const sides: Side[] = [];
  for (const [index, checkout] of options.checkouts.entries()) sides.push(stack.use(await openSide(`${index}`, checkout, options)));
  for (let turn = 0; turn < WARM_UP_TURNS; turn += 1) for (const side of sides) await side.turn();
  for (const side of sides) side.endRound();
  for (let round = 0; round < options.rounds; round += 1) {
    for (let turn = 0; turn < TURNS_PER_ROUND; turn += 1) for (const side of turn % 2 === 0 ? sides : sides.toReversed()) await side.turn();
    for (const side of sides) side.endRound();
  }
  const [earlier, later] = sides.map(({ cost }) => ({ all: cost.all.slice(1), main: cost.main.slice(1) })) as [Cost, Cost];
  const row = (kind: keyof Cost) => {
    const ratios = later[kind].map((us, index) => us / (earlier[kind][index] ?? Number.NaN));
    const mean = (cost: Cost): number => cost[kind].reduce((sum, us) => sum + us, 0) / cost[kind].length;
    const [before, now] = [mean(earlier), mean(later)];
    return {
      figure: (now / before).toFixed(3),
      spread: `${before.toFixed(0)} and ${now.toFixed(0)} µs/request; rounds ${shown(ratios, 2)}`,
    };
  };
  return { "backend CPU, later over earlier": row("all"), "of it the main thread": row("main") };
}

async function openSide(name: string, checkout: string, { folder, clients, records }: SideBySideOptions): Promise<Side> {
  await using stack = new AsyncDisposableStack();
  const place = await backendPlace(join(folder, name));
  const backend = stack.use(await startBackend(place, [], join(checkout, "backend/main.ts")));
  const operator = await login(place.apiUrl, "admin@localhost", adminPassword(place));
  const { apiKey } = await makeTenant(place.apiUrl, operator, "bench");
  const client = stack.use(OPEN_CLIENT.raw({ url: place.apiUrl, path: INGEST_PATHS.logs, apiKey }, clients));
  const bodies = Array.from({ length: clients }, () => new LoadBody("logs", records));
  const pid = backend.child.pid ?? 0;
  const cost: Cost = { all: [], main: [] };
  const before = { all: 0, main: 0 };
  const opened = stack.move();
  return {
    cost,
    async turn() {
      let left = REQUESTS_PER_TURN;
      const send = async (body: LoadBody): Promise<void> => {
        while (left > 0) {
          left -= 1;
          const status = await client.post(body.next());
          if (status !== "204") throw new Error(`${checkout}: ${status}`);
        }
      };
      await Promise.all(bodies.map(send));
    },
    endRound() {
      for (const [kind, read] of [["all", cpuMs] as const, ["main", mainThreadCpuMs] as const]) {
        const now = read(pid);
        cost[kind].push(((now - before[kind]) * 1000) / (REQUESTS_PER_TURN * TURNS_PER_ROUND));
        before[kind] = now;
      }
    },
    [Symbol.asyncDispose]: async () => opened.disposeAsync(),
  };
}
