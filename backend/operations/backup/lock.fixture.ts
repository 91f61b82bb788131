// Locks the DATA_DIR in its first argument until it is killed: a second process for lock.test.ts.
import { lockDataDir } from "./lock.ts";

const lock = lockDataDir(process.argv[2] as string);
process.stdout.write("locked\n");
// Refers to the lock, which would otherwise end with its garbage collection.
setInterval(() => void lock, 60_000);
