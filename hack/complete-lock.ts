// Completes package-lock.json with the optional packages of platforms that the current registry does not serve, as `npm install` would
// write them if it did (version, os, cpu; no checksum, because none can be verified here). Without them, `npm ci` reports that the lock
// file is out of sync. Run after every change of dependencies: node hack/complete-lock.ts
import { readFileSync, writeFileSync } from "node:fs";

interface Entry {
  version?: string;
  dev?: boolean;
  optional?: boolean;
  os?: string[];
  cpu?: string[];
  libc?: string[];
  optionalDependencies?: Record<string, string>;
}

const SYSTEMS = ["aix", "android", "darwin", "freebsd", "linux", "openharmony", "win32"];
const PROCESSORS = ["arm", "arm64", "ia32", "loong64", "ppc64", "riscv64", "s390x", "wasm32", "x64"];

const lock = JSON.parse(readFileSync("package-lock.json", "utf8")) as { packages: Record<string, Entry> };
for (const [path, entry] of Object.entries({ ...lock.packages })) {
  for (const [name, version] of Object.entries(entry.optionalDependencies ?? {})) {
    if (!isLocked(path, name) && /^\d+\.\d+\.\d+/.test(version))
      lock.packages[`node_modules/${name}`] = platformPackage(name, version, entry.dev);
  }
}
lock.packages = Object.fromEntries(Object.entries(lock.packages).sort(([a], [b]) => (a < b ? -1 : 1)));
writeFileSync("package-lock.json", `${JSON.stringify(lock, null, 2)}\n`);

/** Node's look-up: next to the dependent package, then in every folder above it. */
function isLocked(from: string, name: string): boolean {
  for (let at = from; ; at = at.slice(0, Math.max(0, at.lastIndexOf("/node_modules/")))) {
    if (lock.packages[`${at ? `${at}/` : ""}node_modules/${name}`]) return true;
    if (at === "") return false;
  }
}

function platformPackage(name: string, version: string, dev: boolean | undefined): Entry {
  const words = name.split(/[-/]/).flatMap((word) => (word === "armeabi" ? ["arm"] : [word]));
  const os = words.filter((word) => SYSTEMS.includes(word));
  const cpu = words.filter((word) => PROCESSORS.includes(word));
  const libc = name.includes("musl") ? ["musl"] : name.endsWith("-gnu") ? ["glibc"] : undefined;
  return {
    version,
    ...(cpu.length > 0 && { cpu }),
    ...(dev && { dev }),
    ...(libc && { libc }),
    optional: true,
    ...(os.length > 0 && { os }),
  };
}
