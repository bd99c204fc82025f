/**
 * Lets an engine's thread process messages between steps. In its own module because the channel keeps a process alive.
 */
const channel = new MessageChannel();
let resume: (() => void) | null = null;
channel.port1.onmessage = () => resume?.();

/**
 * Resolves in the next task of the event loop, so that pending messages are handled first. A timer would take a
 * millisecond or more. Only one call may be pending.
 */
export function nextTask(): Promise<void> {
  return new Promise((resolve) => {
    resume = resolve;
    channel.port2.postMessage(null);
  });
}
