// Runs the attacking tenant in a separate process, so that its CPU use does not delay the clocks of the measuring process. It receives
// messages that say which attacks to run against which target, and when to begin and end; it sends back how each request was answered.
import { setPriority } from "node:os";
import { Attacker, type Attack, type Target } from "./attack.ts";
import { ATTACKS } from "./attack-table.ts";

export interface Orders {
  readonly target: Target;
  readonly attacks: readonly string[];
  /** True: runs the waves of each attack one after the other, instead of all attacks at once. */
  readonly oneAtATime?: boolean | undefined;
}
export type ToAttacker = { readonly prepare: Orders } | "begin" | "end";
export type FromAttacker = "prepared" | { readonly answers: Record<string, Record<string, number>> };

/** Below the backend's, which has no attackers on its machine elsewhere. */
const NICE = 5;

const attackers = new Map<string, Attacker>();
const preparations: Record<string, Record<string, number>> = {};

let isOneAtATime = false;

async function prepare({ target, attacks, oneAtATime = false }: Orders): Promise<void> {
  isOneAtATime = oneAtATime;
  for (const name of attacks) {
    const attack = attackOf(name);
    const attacker = new Attacker(target);
    attackers.set(name, attacker);
    await attack.prepare?.(attacker);
    preparations[name] = Object.fromEntries(attacker.answers);
    attacker.answers.clear();
  }
}

async function begin(): Promise<void> {
  if (isOneAtATime) {
    for (let turn = 0; ; turn += 1)
      for (const [name, attacker] of attackers) {
        if (attacker.over) return;
        await attackOf(name).wave(attacker, turn);
      }
  }
  const waves = async ([name, attacker]: [string, Attacker]): Promise<void> => await attacker.run(attackOf(name));
  await Promise.all([...attackers].map(waves));
}

function attackOf(name: string): Attack {
  const attack = ATTACKS[name];
  if (!attack) throw new Error(`there is no attack "${name}"; there are: ${Object.keys(ATTACKS).join(", ")}`);
  return attack;
}

function report(message: FromAttacker): void {
  process.send?.(message);
}

setPriority(NICE);
process.on("message", (message: ToAttacker) => {
  if (message === "begin") void begin();
  else if (message === "end") {
    const answers: Record<string, Record<string, number>> = {};
    for (const [name, attacker] of attackers) {
      if (attacker.waiting > 0) attacker.answers.set("none yet", attacker.waiting);
      answers[name] = Object.fromEntries(attacker.answers);
      const prepared = Object.entries(preparations[name] ?? {});
      for (const [answer, times] of prepared) answers[name][`beforehand: ${answer}`] = times;
    }
    process.send?.({ answers } satisfies FromAttacker, () => process.exit(0));
  } else
    prepare(message.prepare).then(
      () => report("prepared"),
      (error: unknown) => {
        console.error(error);
        process.exit(1);
      },
    );
});
