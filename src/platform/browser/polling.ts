/**
 * Firefox looks only every 100 ms whether a device has completed anything, unless something is submitted, and be it
 * nothing (dom/webgpu/ipc, WebGPUParent). A decode step would take as long.
 */
import { easedImmediate, messageImmediate, sleeper } from '../eased-immediate.ts';

/** Each poll is a message to the browser's GPU process. */
const SLEEP_MS = 0.5;

/** Returns a function that resolves when the device should be polled again. For threads that may sleep: workers. */
export function polls(): () => Promise<void> {
  const eased = easedImmediate(messageImmediate(), sleeper(SLEEP_MS), () => performance.now());
  return () => new Promise((resolve) => eased(() => resolve()));
}
