/**
 * Lets an engine's thread process messages between steps. In its own module because the channel keeps a process alive.
 */
import { messageImmediate } from './eased-immediate.ts';

const immediate = messageImmediate();

/**
 * Resolves in the next task of the event loop, so that pending messages are handled first. Only one call may be
 * pending.
 */
export const nextTask = (): Promise<void> => new Promise((resolve) => immediate(resolve));
