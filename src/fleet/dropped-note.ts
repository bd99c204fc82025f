/** The message, shown once per engine, when its pool is too small for its holds. */
import type { HeldBlocks } from '../engine/kv-connector.ts';

export function droppedNote(direction: HeldBlocks['direction']): string {
  return direction === 'decode'
    ? 'its pool is too small for what it holds for next turns: the oldest gave way to requests that wait, and P computes it again; --d-blocks gives it more'
    : 'its pool is full of prompts that no D came for: the oldest gave way to requests that wait; --p-blocks gives it more';
}
