// Locks the DATA_DIR in its first argument until it is killed: a second process for lock.test.ts.
import { lockDataDir } from "./lock.ts";

await lockDataDir(process.argv[2] as string);
process.stdout.write("locked\n");
setInterval(() => {}, 60_000);
