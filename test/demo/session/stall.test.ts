import { expect, it } from 'vitest';
import { runStall } from '../../../demo/src/session/experiments/stall.ts';
import type { SessionEvent } from '../../../demo/src/session/types.ts';
import { measuringOn } from './measuring.ts';

/** Runs a stall on a recorder that answers the first user with `tokens` tokens. Resolves to the error. */
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

it('a stall run reports an error if the first answer ends before or with the paste', async () => {
  expect(await stalled(7)).toContain('ended before anything could be pasted');
  expect(await stalled(8)).toContain('ended before anything could be pasted');
  expect(await stalled(9)).toBeNull();
});
