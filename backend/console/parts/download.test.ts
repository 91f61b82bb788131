import { expect, test, vi } from "vitest";

const { csvOf } = await vi.hoisted(async () => {
  vi.stubGlobal("location", { hash: "" });
  vi.stubGlobal("window", { addEventListener: () => undefined });
  vi.stubGlobal("localStorage", { getItem: () => null, setItem: () => undefined, removeItem: () => undefined });
  return await import("./download.tsx");
});

test("writes rows with different fields as one table, and no cell as a formula", () => {
  const rows = [
    { message: 'say "a", b\nc', labels: { "http.route": "/cart" }, count: -3 },
    { message: "=HYPERLINK(1)", extra: null, labels: {} },
  ];
  expect(csvOf(rows)).toBe('message,labels.http.route,count,extra\r\n"say ""a"", b\nc",/cart,-3,\r\n\'=HYPERLINK(1),,,\r\n');
});
