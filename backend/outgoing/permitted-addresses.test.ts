// Which addresses notifications never contact, in every notation that a resolver may return, and which ones the operator can allow.
import { expect, test } from "vitest";
import { PermittedAddresses } from "./permitted-addresses.ts";

const plain = new PermittedAddresses([], () => []);

test.each(["1.1.1.1", "8.8.8.8", "100.63.255.255", "100.128.0.1", "172.15.0.1", "172.32.0.1", "2606:4700:4700::1111", "2a00:1450:4001::1"])(
  "permits %s, an address of the internet",
  (address) => expect(plain.permits(address)).toBe(true),
);

test.each([
  ["127.0.0.1", "loopback"],
  ["127.255.255.254", "loopback"],
  ["::1", "loopback"],
  ["0.0.0.0", "this machine"],
  ["::", "this machine"],
  ["10.0.0.1", "private"],
  ["172.16.0.1", "private"],
  ["172.31.255.255", "private"],
  ["192.168.1.1", "private"],
  ["169.254.169.254", "metadata of a cloud"],
  ["fd00:ec2::254", "metadata of a cloud"],
  ["168.63.129.16", "metadata of a cloud"],
  ["192.0.0.192", "metadata of a cloud"],
  ["100.100.100.200", "CGNAT, metadata of a cloud"],
  ["100.64.0.1", "CGNAT"],
  ["fe80::1", "link-local"],
  ["fe80::1%eth0", "link-local with its zone"],
  ["fec0::1", "site-local"],
  ["fc00::1", "ULA"],
  ["fdff::1", "ULA"],
  ["224.0.0.1", "multicast"],
  ["ff02::1", "multicast"],
  ["255.255.255.255", "broadcast"],
  ["240.0.0.1", "reserved"],
  ["198.18.0.1", "benchmarking"],
  ["203.0.113.1", "documentation"],
  ["2001:db8::1", "documentation"],
  ["3fff::1", "documentation"],
  ["2001::1", "Teredo"],
  ["2002:7f00:1::1", "6to4 of 127.0.0.1"],
  ["::ffff:127.0.0.1", "IPv4 in IPv6"],
  ["::ffff:7f00:1", "IPv4 in IPv6"],
  ["::ffff:8.8.8.8", "IPv4 in IPv6, of a global address too"],
  ["::127.0.0.1", "IPv4 in IPv6, the old way"],
  ["64:ff9b::127.0.0.1", "NAT64 of loopback"],
  ["64:ff9b::a9fe:a9fe", "NAT64 of metadata"],
  ["64:ff9b::10.0.0.0", "NAT64 of private"],
  ["64:ff9b::", "NAT64 of 0.0.0.0"],
  ["64:ff9b:1::1", "NAT64 of the network's own"],
  ["5f00::1", "segment routing"],
  ["localhost", "no address"],
  ["", "no address"],
  ["1.1.1", "no address"],
])("rejects %s, %s", (address) => expect(plain.permits(address)).toBe(false));

test("permits IPv4 addresses of the internet through NAT64 as well", () => {
  for (const address of ["64:ff9b::8.8.8.8", "64:ff9b::808:808", "64:ff9b::1.0.0.1", "64:ff9b::100:1"]) {
    expect([address, plain.permits(address)]).toEqual([address, true]);
  }
});

test("permits the operator's networks, in both spellings of IPv4, and no neighbouring address", () => {
  const some = new PermittedAddresses(["10.1.0.0/16", "127.0.0.1", "fd12::/16"], () => []);
  for (const address of ["10.1.2.3", "::ffff:10.1.2.3", "64:ff9b::10.1.2.3", "127.0.0.1", "fd12::1", "1.1.1.1"])
    expect([address, some.permits(address)]).toEqual([address, true]);
  for (const address of ["10.2.0.1", "127.0.0.2", "fd13::1", "169.254.169.254", "::1"])
    expect([address, some.permits(address)]).toEqual([address, false]);
});

test("rejects this machine's own public address, which its firewall permits to itself", () => {
  const machine = new PermittedAddresses([], () => ["1.2.3.4", "2a00:1450::1"]);
  expect(["1.2.3.4", "::ffff:1.2.3.4", "2a00:1450::1", "1.2.3.5"].map((address) => machine.permits(address))).toEqual([
    false,
    false,
    false,
    true,
  ]);
  expect(new PermittedAddresses(["1.2.3.4"], () => ["1.2.3.4"]).permits("1.2.3.4")).toBe(true);
});
