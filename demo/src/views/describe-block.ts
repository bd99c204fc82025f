/** What a block holds and who may use it, in words. No DOM. */
import type { BlockView, Role } from '../session/types.ts';
import { plural, remaining } from './format.ts';

export const letterOf = (role: Role): 'P' | 'D' => (role === 'prefill' ? 'P' : 'D');

/** Whether what was copied came from the store; perhaps: nobody knows. */
export type Stored = boolean | 'perhaps';

/** One phrase for the state. `role` is the engine that has the block. */
export function stateInWords(block: BlockView, role: Role, stored: Stored): string {
  const [here, other] = role === 'prefill' ? ['P', 'D'] : ['D', 'P'];
  const there = stored === 'perhaps' ? `${other} or the store` : stored ? 'the store' : other;
  switch (block.state) {
    case 'null':
      return 'the null block: stands for nothing, never read';
    case 'free':
      return block.tokens > 0
        ? 'free: what lies in it is found by nobody, and will be overwritten'
        : 'free, nothing in it yet';
    case 'evicted':
      return 'free: its content was evicted';
    case 'cached':
      return `free, but ${here} still finds its content by the hash`;
    case 'arriving':
      return `waiting for its copy from ${there}`;
    case 'computed':
      return `in use: computed by ${here}`;
    case 'hit':
      return `in use: found in ${here}'s own prefix cache`;
    case 'pulled':
      return `in use: copied from ${there}`;
    case 'held':
      return block.origin === 'pulled'
        ? `kept after its turn; copied from ${there} before`
        : `kept after its turn; computed by ${here}`;
  }
}

/** 'for P, 471 s longer'; null when nobody waits for it. */
export function holdInWords(block: BlockView, nowMs: number): string | null {
  if (block.heldFor === null) return null;
  const until = block.heldUntilMs === null ? '' : `, ${remaining(block.heldUntilMs - nowMs)} longer`;
  return `for ${letterOf(block.heldFor)}${until}`;
}

export function whoseInWords(block: BlockView): string | null {
  if (block.turn === null) return null;
  const said =
    block.author === 'user'
      ? 'said by the user'
      : block.author === 'assistant'
        ? 'said by the assistant'
        : block.author === 'both'
          ? 'said by both'
          : null;
  return [`turn ${block.turn}`, said].filter(Boolean).join(', ');
}

/** All of it in one sentence, for a screen reader. */
export function blockInWords(block: BlockView, role: Role, nowMs: number, stored: Stored): string {
  const parts = [
    `Block ${block.id} of ${letterOf(role)}: ${stateInWords(block, role, stored)}`,
    whoseInWords(block),
    block.tokens > 0 ? plural(block.tokens, 'token') : null,
    block.heldFor ? `held ${holdInWords(block, nowMs)}` : null,
    block.text ? `“${block.text}”` : null,
  ];
  return `${parts.filter(Boolean).join('; ')}.`;
}
