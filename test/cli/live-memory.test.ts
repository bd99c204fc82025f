import { expect, it } from 'vitest';
import { answerMainThread, liveMemory } from '../../src/cli/bench/live-memory.ts';

it('asks again until the engine that is being replaced answers too, and gives up at last', async () => {
  answerMainThread();
  await expect(liveMemory(2)).rejects.toThrow('fewer than 2 engines reported their memory');
  const asked = liveMemory();
  // The second engine is there after the first question.
  answerMainThread();
  expect(await asked).toBeGreaterThan(3 * 2 ** 20);
});
