// A URL with several hosts, as libpq accepts it: `postgres://user@one:5432,other:5432/database` is a primary and its standbys.

/** One URL for each host. */
export function hostUrls(url: string): string[] {
  const start = url.indexOf("//") + 2;
  const length = url.slice(start).search(/[/?]/);
  const end = length < 0 ? url.length : start + length;
  const authority = url.slice(start, end);
  const hostsAt = authority.lastIndexOf("@") + 1;
  const [before, after] = [url.slice(0, start) + authority.slice(0, hostsAt), url.slice(end)];
  return authority
    .slice(hostsAt)
    .split(",")
    .map((host) => before + host + after);
}
