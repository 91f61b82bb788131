// Stops Node's HTTP parser in the middle of a packet. Closing the socket is not enough: the parser goes on to announce every request of the
// bytes that it already has, which is over a thousand small requests per packet of 64 KiB.
import type { Socket } from "node:net";

/** Call it when the socket is ended or destroyed: requests that follow in the same packet do not reach the application. */
export function stopParser(socket: Socket): void {
  // `remove` is not public. It takes the parser off its connection, and the parser then gives up before its next callback.
  (socket as Socket & { readonly parser?: { remove?(): void } | null }).parser?.remove?.();
}
