/** The message, shown once per engine, when its pool is too small for its holds. */
import type { HeldBlocks } from '../engine/kv-connector.ts';

export function droppedNote(direction: HeldBlocks['direction']): string {
  return direction === 'decode'
    ? 'its pool is too small for its holds for next turns: it dropped the oldest to make room for waiting requests, and P computes that KV again; --d-blocks gives it more'
    : 'its pool is full of prompts that no D has read: it dropped the oldest to make room for waiting requests; --p-blocks gives it more';
}
