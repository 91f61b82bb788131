import { expect, test } from "vitest";
import { PermittedAddresses } from "./permitted-addresses.ts";
import { permittedAddressesOf } from "./resolve-host.ts";

const { signal } = new AbortController();
const thousands = (network: string): string[] => Array.from({ length: 4000 }, (_, n) => `${network}.${n >> 8}.${n & 255}`);

test("a name that leads to thousands of addresses costs no more than one that leads to some, nor are all of them told", async () => {
  let judged = 0;
  const permitted = new PermittedAddresses([], () => {
    judged += 1;
    return [];
  });
  const found = await permittedAddressesOf("many.example", { permitted, lookup: async () => thousands("8.8"), signal });
  expect(found).toHaveLength(8);
  expect(found[0]).toEqual({ address: "8.8.0.0", family: 4 });
  expect(judged).toBeLessThanOrEqual(64);
  const refused = permittedAddressesOf("inside.example", { permitted, lookup: async () => thousands("10.0"), signal });
  await expect(refused).rejects.toMatchObject({ name: "HostRefused", found: thousands("10.0").slice(0, 64) });
});
