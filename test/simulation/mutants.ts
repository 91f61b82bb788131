// Faults that are put into the write path on purpose, one at a time: the simulation must find each. `from` occurs once in the file.
import type { Mutant } from "./hooks.ts";

const LOG = "backend/engines/append-log/append-log.ts";
const RECORD = "backend/engines/append-log/record.ts";
const JOURNAL = "backend/engines/clickhouse/row-journal.ts";
const PENDING = "backend/engines/clickhouse/pending-rows.ts";
const COMMIT = "backend/storage/write-path/journaled-commit.ts";
const ONCE = "backend/storage/write-path/once-writer.ts";
const COMMIT_GROUP = "backend/storage/write-path/group-commit.ts";
const QUEUE = "backend/storage/write-path/insert-queue.ts";
const STORED = "backend/storage/write-path/stored-days.ts";
const METRICS = "backend/engines/victoria-metrics/journal.ts";
const FILES = "common/files.ts";
const LINES = "agent/proxy/file-lines.ts";
const BATCHES = "agent/collector/files/stored-batches.ts";
const KNOWN = "agent/collector/files/stored-lines.ts";
const UNANSWERED = "agent/collector/files/unanswered-requests.ts";
const FORWARD = "agent/proxy/forward.ts";

const mutant = (name: string, file: string, from: string, to: string): Mutant => ({ name, file, from, to });

export const MUTANTS: readonly Mutant[] = [
  mutant("a segment is not synced", LOG, "this.#calls.sync(fd), segment.isNamed", "segment.isNamed"),
  mutant("an append does not wait for its fsync", LOG, "await Promise.all([this.#calls.sync(fd)", "void Promise.all([this.#calls.sync(fd)"),
  mutant("the name of a segment is not synced", LOG, "segment.isNamed || folderSynced(this.folder)", "undefined"),
  mutant("a short write counts as whole", LOG, "if (bytesWritten !== bytes) throw", "if (bytesWritten === 0) throw"),
  mutant("a record is released twice", LOG, "state.unreleased -= 1;", "state.unreleased -= 2;"),
  mutant("a batch counts as one record", LOG, "segment.unreleased += batch.length;", "segment.unreleased += 1;"),
  mutant(
    "an earlier segment can be removed before it is read",
    LOG,
    "const unreleased = Number.POSITIVE_INFINITY;",
    "const unreleased = 0;",
  ),
  mutant("the marker is replaced at each start", LOG, "readMarker(folder) ?? createMarker(folder)", "createMarker(folder)"),
  mutant(
    "a record is not compared with its checksum",
    RECORD,
    "if (head.readUInt32LE(CHECKSUM_AT) !== checksum(head, body)) return undefined;",
    "",
  ),
  mutant(
    "a segment is removed when it is read",
    JOURNAL,
    "if (records.length === 0) this.#log.remove(segment);",
    "this.#log.remove(segment);",
  ),
  mutant(
    "records of an earlier process count without another fsync",
    JOURNAL,
    "const journaled = await this.append(entry);",
    "return { entry, journaled: earlier, isOnDisk: true };\n        const journaled = await this.append(entry);",
  ),
  mutant(
    "an unreadable segment is removed",
    JOURNAL,
    "readError };\n        continue;",
    "readError };\n        this.#log.remove(segment);\n        continue;",
  ),
  mutant(
    "a query does not wait for pending rows",
    PENDING,
    "if (named.length > 0) await Promise.all(named.map((table) => table.flush(orgId)));",
    "",
  ),
  mutant(
    "an entry is settled before its commit",
    COMMIT,
    "      await commit.add(orgId, { rows }, true);",
    "      pending.journaled.settle();\n      await commit.add(orgId, { rows }, true);",
  ),
  mutant("rows are forgotten when the engine is unavailable", COMMIT, "for (const entry of pending) this.#replay.push(entry);", ""),
  mutant(
    "replayed rows are not looked up in the table",
    COMMIT,
    "const missing = readable.filter(({ entry }) => !stored.has(entry));",
    "const missing = readable;",
  ),
  mutant("an entry that the table has is not settled", COMMIT, "      this.#settle(pendingEntry);\n", ""),
  mutant(
    "refused rows are not kept",
    COMMIT,
    "const file = await journal.keepDeadLetter(pending.entry);",
    'const file = "none" as string | undefined;',
  ),
  mutant(
    "rows become dead letters when the engine is unavailable",
    COMMIT,
    'if (!(error instanceof ApiError) || error.code !== "unstorable") return',
    "if (!(error instanceof ApiError)) return",
  ),
  mutant("a failed replay forgets its batch", COMMIT, "        this.#replay = batch.concat(this.#replay);\n", ""),
  mutant("failed entries are replayed during the recovery", COMMIT, "        await this.#recovering;\n", ""),
  mutant("journaled bodies are not recognised after a restart", ONCE, "else this.#stored.add(identity.sender, identity.hash);", ""),
  mutant(
    "bodies are recognised that are only in the page cache",
    ONCE,
    "if (settled) void this.#recogniseLater(identity, settled);",
    "if (settled) this.#stored.add(identity.sender, identity.hash);",
  ),
  mutant(
    "stored bodies are not recognised after a restart",
    ONCE,
    "writer.#stored.add(senderOf(row.org_id, row.host_id, row.day), BigInt(row.body_hash));",
    "void row;",
  ),
  mutant("stored bodies are not recognised", ONCE, "if (this.#stored.has(sender, hash)) return;", ""),
  mutant("a body is written while it is being written", ONCE, "await earlier.catch(() => {});", "break;"),
  mutant("a failed insert is not looked up", ONCE, "        this.#uncertain.add(sender, hash);\n", ""),
  mutant("the days of a body share a hash", ONCE, "return `${orgId}:${hostId}:${day}`;", "return `${orgId}:${hostId}`;"),
  mutant(
    "a day that failed is acknowledged",
    ONCE,
    'for (const outcome of outcomes) if (outcome.status === "rejected") throw outcome.reason;',
    "void outcomes;",
  ),
  mutant(
    "claims of other inserts are ignored",
    COMMIT_GROUP,
    "const others = new Set(claimed.filter((_, index) => !isOurs[index]));",
    "const others = new Set(claimed.filter((_, index) => isOurs[index] === undefined));",
  ),
  mutant(
    "an earlier insert is not made void",
    ONCE,
    "      await this.#insertWith(insertId, batch, section);\n      this.#voided",
    "      this.#voided",
  ),
  mutant(
    "an earlier insert is made void under another token",
    ONCE,
    "await this.#insertWith(insertId, batch, section);",
    'await this.#insertWith(insertId + "-", batch, section);',
  ),
  mutant(
    "a claim is taken over without a query",
    ONCE,
    "    if (await this.#isStored(batch, section.day, receivedS)) return true;\n    await this.#claims.release",
    "    await this.#claims.release",
  ),
  mutant("a claim counts as stored", ONCE, "    await this.#claims.release([claim]);\n    return false;", "    return true;"),
  mutant(
    "a claimed body counts as stored",
    COMMIT_GROUP,
    "return bodies.map((body) => !others.has(body));",
    "return bodies.map(() => true);",
  ),
  mutant(
    "the window follows the wall clock",
    ONCE,
    "return performance.now() - this.#startedMs < WINDOW_S * 1000 ? Math.min(sinceS, this.#newestMinutesS) : sinceS;",
    "return Math.floor(Date.now() / 1000) - WINDOW_S;",
  ),
  mutant(
    "a takeover trusts the clock of this replica",
    ONCE,
    "if (await this.#isStored(batch, section.day, receivedS)) return true;",
    "if (await this.#isStored(batch, section.day)) return true;",
  ),
  mutant("a body that is in the journal twice is stored twice", STORED, "      known.add(key);\n", ""),
  mutant("the lookup begins at the time of the rows", STORED, "Math.min(newestS, ...[", "Math.min(...["),
  mutant(
    "a flush does not wait for a running insert",
    QUEUE,
    "const selected = [...this.#inserting.filter(isSelected), ...queued];",
    "const selected = queued;",
  ),
  mutant(
    "a failed insert is acknowledged",
    QUEUE,
    "for (const { reject } of batch) reject(error);",
    "for (const { resolve } of batch) resolve(true);",
  ),
  mutant("half of a refused batch is forgotten", QUEUE, "        await this.#commit(batch.slice(half));\n", ""),
  mutant(
    "metrics are not replayed after the engine has crashed",
    METRICS,
    "for (const segment of this.#log.segments) this.#pendingReplay.add(segment);",
    "",
  ),
  mutant("metrics are removed too early", METRICS, "const KEEP_MS = 15_000;", "const KEEP_MS = 1000;"),
  mutant("metrics that wait for their replay are removed", METRICS, "if (!this.#pendingReplay.has(segment) && nowMs", "if (nowMs"),
  mutant(
    "a crash during a replay is not noticed",
    METRICS,
    "if (this.#crashes !== crashes) throw new Error",
    "if (this.#crashes < crashes) throw new Error",
  ),
  mutant(
    "a write in a later segment than the crash is not replayed",
    METRICS,
    "if (this.#crashes !== crashes) this.#pendingReplay.add(segment);",
    "",
  ),
  mutant(
    "a new folder is not synced",
    FILES,
    "    mkdirSync(folder, { mode });\n    syncFolder(parent);",
    "    mkdirSync(folder, { mode });",
  ),
  mutant("a replaced file is not synced", FILES, '{ mode, flag: "wx", flush: true }', '{ mode, flag: "wx" }'),
  mutant("delivered lines are not recorded", LINES, 'if (result.kind === "accepted") stored.add(identitiesOf(known));', ""),
  mutant(
    "a request is not kept until it is answered",
    LINES,
    "const id = identities.length > 0 ? stored.unanswered.begin(identities, body) : undefined;",
    "const id = identities.length > 1e9 ? stored.unanswered.begin(identities, body) : undefined;",
  ),
  mutant(
    "an unanswered request is not sent again",
    LINES,
    "stored.unanswered.find((others) => stored.lines.mayShare(identitiesOf(fresh), others), body)",
    "stored.unanswered.find(() => false, body)",
  ),
  mutant(
    "a request is forgotten after any answer",
    LINES,
    "if (id !== undefined && isFinal(result)) stored.unanswered.end(id);",
    "if (id !== undefined) stored.unanswered.end(id);",
  ),
  mutant("the same lines are sent in two requests at once", LINES, "    this.#sending.add(sending);\n", ""),
  mutant(
    "repetitions within a request are not removed",
    LINES,
    "for (const line of fresh) inRequest.set(line, identity);",
    "void inRequest;",
  ),
  mutant(
    "a request without a response counts as delivered",
    FORWARD,
    "if (outcome instanceof UpstreamError) return retry(outcome.message);",
    'if (outcome instanceof UpstreamError) return { kind: "accepted" };',
  ),
  mutant(
    "503 is final",
    FORWARD,
    "return retry(`BACKEND_URL answered ${status} ${detail}`, retryAfterS);",
    'return { kind: "refused", status, code: "unavailable", message: detail };',
  ),
  mutant(
    "other batches of a refused request are dropped",
    LINES,
    "if (fresh.length < 2 || result.kind",
    "if (fresh.length > 0 || result.kind",
  ),
  mutant("batches that are sent again are not recognised", KNOWN, "if (this.#sent.has(batch.id)) return batch.lines;", ""),
  mutant(
    "lines are looked up only in batches of earlier starts",
    KNOWN,
    "read.start !== this.#start || this.#isInDoubt(read)",
    "read.start !== this.#start",
  ),
  mutant("lines that were looked up before are not added", KNOWN, "if (this.#lastReads && this.mayRepeat(stored))", "if (this.#saves < 0)"),
  mutant("lines of the last start are not looked up", KNOWN, "    this.#lastReads = undefined;\n", ""),
  mutant("no period of doubt begins when a collector ends", BATCHES, "[...this.lines.doubts, { from }]", "[...this.lines.doubts]"),
  mutant("a period of doubt does not end", BATCHES, "if (doubt && !doubt.to && this", "if (doubt && !doubt.to && nowMs === 0 && this"),
  mutant("periods of doubt are mixed up", KNOWN, "isWithin(doubt, other) && isWithin(doubt, read)", "isWithin(doubt, other)"),
  mutant(
    "the end of a period of doubt is not on disk",
    BATCHES,
    ".slice(-MAX_DOUBT_PERIODS);\n      this.#isBehind = true;",
    ".slice(-MAX_DOUBT_PERIODS);",
  ),
  mutant("lines of one collector count as read again", KNOWN, "if (!other || other.start === read.start) return", "if (!other) return"),
  mutant("lines are forgotten when offsets are saved once", KNOWN, "if (batch.saves >= this.#saves)", "if (batch.saves > this.#saves)"),
  mutant("lines that offsets cover are never forgotten", KNOWN, "if (batch.saves >= this.#saves)", "if (batch.saves >= 0)"),
  mutant("a period of doubt is too long", BATCHES, "const OPENED_WITHIN_MS = 100;", "const OPENED_WITHIN_MS = 5000;"),
  mutant("a saved line hides one that was read later", KNOWN, "a.isSaved === b.isSaved ?", "a.start === b.start ?"),
  mutant("a step back prolongs a period of doubt", BATCHES, "toMs + COMMIT_MS : toMs", "toMs + COMMIT_MS : this.#highestMs"),
  mutant("lines whose offsets were saved stay uncertain", KNOWN, "return !isSaved && from", "return from"),
  mutant("a clock that is set back is not noticed", BATCHES, "    this.#setBackToMs = nowMs;\n", ""),
  mutant("the number of the collector's start is not increased", BATCHES, "Math.max(this.lines.start + 1, Math.floor(nowMs / 1000))", "1"),
  mutant("a request that the disk does not take is not kept", UNANSWERED, "body: isWritten ? undefined : body", "body: undefined"),
  mutant(
    "unanswered requests are forgotten at a restart",
    UNANSWERED,
    "if (request) this.#all.set",
    'if (request && name === "") this.#all.set',
  ),
];
