// A program for the sandbox whose jobs do what the most hostile query could do.
import { getPriority } from "node:os";
import { sql } from "../../engines/clickhouse/sql.ts";
import { type JobContext, serveJobs } from "./serve-jobs.ts";
import { ORGANISATION } from "./protocol.ts";

export interface TestJob {
  readonly does: keyof typeof JOBS;
  readonly text?: string;
}

const JOBS = {
  answer: async ({ text = "" }: TestJob) => Buffer.from(text),
  /** JavaScript that never ends and never reads a message. */
  loop: async () => {
    for (;;) Math.sqrt(2);
  },
  /** An expression for JavaScript's own engine. */
  backtrack: async () => Buffer.from(String(/(?:a|a)*b/.test(`${"a".repeat(60)}c`))),
  grow: async () => {
    const kept: object[] = [];
    for (;;) kept.push({ kept });
  },
  /** One call of native code that exceeds V8's limit immediately: in a worker thread, it would end the whole process. */
  burst: async () => Buffer.from(String(Array.from("x".repeat(470e6)).length)),
  /** Memory that V8's limit does not include. */
  buffers: async () => {
    const kept: Buffer[] = [];
    for (;;) kept.push(Buffer.alloc(8e6, 1));
  },
  sleep: async () => await new Promise<Buffer>(() => undefined),
  exit: async () => process.exit(3),
  read_and_loop: async (_: TestJob, { ask }: JobContext) => {
    await ask(sql`SELECT 1 WHERE org_id = ${ORGANISATION}`);
    for (;;) Math.sqrt(2);
  },
  read: async (_: TestJob, { ask }: JobContext) => await ask(sql`SELECT 1 WHERE org_id = ${ORGANISATION}`, 1000, 20, 3),
  read_all: async (_: TestJob, { ask }: JobContext) => await ask(sql`SELECT 1`),
  pid: async () => Buffer.from(String(process.pid)),
  priority: async () => Buffer.from(String(getPriority())),
  // oxlint-disable-next-line node/no-process-env -- what a process must not inherit
  environment: async () => Buffer.from(Object.keys(process.env).join()),
};

serveJobs((job: TestJob, context) => JOBS[job.does](job, context));
