// Memory that is done with, freed at once: as garbage, telemetry would make V8 collect several times a second under load.

/** Frees bytes that nothing refers to any more; those that share their memory with others, or have been handed on, stay as they are. */
export function freeBuffer({ buffer, byteLength }: Uint8Array): void {
  if (buffer instanceof ArrayBuffer && !buffer.detached && buffer.byteLength === byteLength) buffer.transfer(0);
}
