import { expect, it } from 'vitest';
import { runStall } from '../../../demo/src/session/stall.ts';
import type { SessionEvent } from '../../../demo/src/session/types.ts';
import { measuringOn } from './measuring.ts';

/** Engines on which the first user is answered with so many tokens; and the error that was told. */
async function stalled(tokens: number): Promise<string | null> {
  const recorder = {
    async *generate({ conversationId }: { conversationId: string }) {
      const count = conversationId === 'stall-first' ? tokens : 2;
      for (let i = 1; i <= count; i++)
        yield { atMs: i, text: '1 ', final: i === count ? { promptTokenIds: [1, 2] } : null };
    },
    endConversation: async () => {},
  };
  const { measuring, last } = measuringOn(recorder);
  await runStall(measuring).catch(() => {});
  return (last() as Extract<SessionEvent, { kind: 'stall' }> | null)!.stall!.error;
}

it('an answer that ends with the paste, or before it, has no pause: that is said, and nothing is waited for', async () => {
  expect(await stalled(7)).toContain('ended before anything could be pasted');
  expect(await stalled(8)).toContain('ended before anything could be pasted');
  expect(await stalled(9)).toBeNull();
});
