// Where a browser goes after its login. Invariant: it stays here, whatever the link that began the login asks for.

/** The path, query and fragment of `text`, as a browser would read it here; undefined for anything that leads elsewhere. */
export function returnPath(text: string): string | undefined {
  // A browser reads \ as /, and drops tabs and line breaks before it looks.
  if (!/^\/(?![/\\])[\u0021-\u007e]*$/.test(text)) return undefined;
  const here = "http://here.invalid";
  const url = URL.parse(text, here);
  if (url?.origin !== here) return undefined;
  const path = `${url.pathname}${url.search}${url.hash}`;
  // `/.//elsewhere` is a path until it stands alone.
  return path.startsWith("//") ? undefined : path;
}
