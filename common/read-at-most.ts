// Reads a whole stream into memory. Invariant: a stream with more than `maxBytes` is an error, however large it is.

export async function readAtMost(maxBytes: number, stream: AsyncIterable<Buffer>, tooLarge: () => Error): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of stream) {
    bytes += chunk.length;
    if (bytes > maxBytes) throw tooLarge();
    chunks.push(chunk);
  }
  return Buffer.concat(chunks, bytes);
}
