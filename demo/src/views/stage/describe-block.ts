/** A block's content, state and hold in words. No DOM. */
import type { BlockView, Role } from '../../session/types.ts';
import { plural, remaining } from '../format.ts';

export const letterOf = (role: Role): 'P' | 'D' => (role === 'prefill' ? 'P' : 'D');

/** 'D1' for decode-1 and decode-1.2, 'PD1' for both-1, which is among the Ds. */
export const buttonLabel = (engineId: string): string =>
  engineId
    .replace(/^prefill-/, 'P')
    .replace(/^decode-/, 'D')
    .replace(/^both-/, 'PD')
    .replace(/\.\d+$/, '');

/** Whether the copied content came from the store. perhaps: unknown. */
export type Stored = boolean | 'perhaps';

/** The state in one phrase. `role` is that of the engine that has the block. */
export function stateInWords(block: BlockView, role: Role, stored: Stored): string {
  const [here, other] = role === 'prefill' ? ['P', 'D'] : ['D', 'P'];
  const there = stored === 'perhaps' ? `${other} or the store` : stored ? 'the store' : other;
  switch (block.state) {
    case 'null':
      return 'the null block: a placeholder that is never read';
    case 'free':
      return block.tokens > 0
        ? 'free: its old content cannot be found any more and will be overwritten'
        : 'free, still empty';
    case 'evicted':
      return 'free: its content was evicted';
    case 'cached':
      return `free, but ${here} can still find its content by the hash`;
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
        ? `held after its turn; was copied from ${there}`
        : `held after its turn; was computed by ${here}`;
  }
}

/** 'for P, 471 s longer'; null if it is not held. */
export function holdInWords(block: BlockView, nowMs: number): string | null {
  if (block.heldFor === null) return null;
  const until = block.heldUntilMs === null ? '' : `, ${remaining(block.heldUntilMs - nowMs)} longer`;
  return `for ${letterOf(block.heldFor)}${until}`;
}

export function ownerInWords(block: BlockView): string | null {
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

/** The whole block in one sentence, for screen readers. */
export function blockInWords(block: BlockView, role: Role, nowMs: number, stored: Stored): string {
  const parts = [
    `Block ${block.id} of ${letterOf(role)}: ${stateInWords(block, role, stored)}`,
    ownerInWords(block),
    block.tokens > 0 ? plural(block.tokens, 'token') : null,
    block.heldFor ? `held ${holdInWords(block, nowMs)}` : null,
    block.text ? `“${block.text}”` : null,
  ];
  return `${parts.filter(Boolean).join('; ')}.`;
}
