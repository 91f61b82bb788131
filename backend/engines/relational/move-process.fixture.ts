// A process that opens the accounts of a DATA_DIR, its only argument, as a backend does at its start, and keeps them open. To be
// killed at its work.
import { createLog } from "../../operations/log.ts";
import { openDatabase } from "./database.ts";

process.stdout.write("begun\n");
export const opened = await openDatabase({ dataDir: process.argv[2] ?? "", log: createLog("silent") });
setInterval(() => undefined, 60_000);
