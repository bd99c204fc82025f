/** A way for an engine's thread to let messages in. A module of its own, since its channel keeps a process alive. */
const channel = new MessageChannel();
let resume: (() => void) | null = null;
channel.port1.onmessage = () => resume?.();

/** Resolves in the event loop's next task, so that messages come in between; a timer would cost a millisecond or more. One at a time. */
export function nextTask(): Promise<void> {
  return new Promise((resolve) => {
    resume = resolve;
    channel.port2.postMessage(null);
  });
}
