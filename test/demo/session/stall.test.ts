import { expect, it } from 'vitest';
import { runStall } from '../../../demo/src/session/experiments/stall.ts';
import { defaultSettings } from '../../../demo/src/session/settings.ts';
import type { SessionEvent } from '../../../demo/src/session/types.ts';
import { measuringOn } from './measuring.ts';

/** Answers the first user with `tokens` tokens, and refuses the paste with `refusal`. */
function answering(tokens: number, refusal: string | null = null) {
  return {
    async *generate({ conversationId }: { conversationId: string }) {
      if (refusal !== null && conversationId === 'stall-second') throw new Error(refusal);
      const count = conversationId === 'stall-first' ? tokens : 2;
      for (let i = 1; i <= count; i++) {
        // Rejections that nobody handles are reported between tasks.
        if (refusal !== null) await new Promise((resolve) => setImmediate(resolve));
        yield { atMs: i, text: '1 ', final: i === count ? { promptTokenIds: [1, 2] } : null };
      }
    },
    endConversation: async () => {},
  };
}

/** Runs a stall; resolves to its error. */
async function stalled(tokens: number, refusal: string | null = null): Promise<string | null> {
  const recorder = answering(tokens, refusal);
  const { measuring, last } = measuringOn(recorder);
  await runStall(measuring).catch(() => {});
  return (last() as Extract<SessionEvent, { kind: 'stall' }> | null)!.stall!.error;
}

it('a stall run reports an error if the first answer ends before or with the paste', async () => {
  expect(await stalled(7)).toContain('ended before anything could be pasted');
  expect(await stalled(8)).toContain('ended before anything could be pasted');
  expect(await stalled(9)).toBeNull();
});

it('a refused paste fails the stall, and nothing else', async () => {
  expect(await stalled(20, 'the pool is too small')).toBe('the pool is too small');
});

it('a stall runs on one P and one D, whatever the settings: with two D each user would have an engine', async () => {
  const { measuring, configured } = measuringOn(answering(9), { ...defaultSettings, prefill: 2, decode: 3 });
  await runStall(measuring);
  expect(configured.length).toBeGreaterThan(1);
  expect(configured.every(({ prefill, decode }) => prefill === 1 && decode === 1)).toBe(true);
});
