import { expect, test } from "vitest";
import { PermittedAddresses, resolvePermitted } from "./permitted-addresses.ts";

const { signal } = new AbortController();
const thousands = (network: string): string[] => Array.from({ length: 4000 }, (_, n) => `${network}.${n >> 8}.${n & 255}`);

test("limits the time and the reported addresses for a name with thousands of them", async () => {
  let validated = 0;
  const permitted = new PermittedAddresses([], () => {
    validated += 1;
    return [];
  });
  const found = await resolvePermitted("many.example", { permitted, lookup: async () => thousands("8.8"), signal });
  expect(found).toHaveLength(8);
  expect(found[0]).toEqual({ address: "8.8.0.0", family: 4 });
  expect(validated).toBeLessThanOrEqual(64);
  const refused = resolvePermitted("inside.example", { permitted, lookup: async () => thousands("10.0"), signal });
  await expect(refused).rejects.toMatchObject({ name: "HostRefused", found: thousands("10.0").slice(0, 64) });
});
