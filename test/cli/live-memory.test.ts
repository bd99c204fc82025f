import { expect, it } from 'vitest';
import { answerMainThread, liveMemory } from '../../src/cli/bench/live-memory.ts';

it('liveMemory asks again until a replacement engine answers too, and gives up in the end', async () => {
  answerMainThread();
  await expect(liveMemory(2)).rejects.toThrow('fewer than 2 engines reported their memory');
  const asked = liveMemory();
  // The second engine answers only after the first question.
  answerMainThread();
  expect(await asked).toBeGreaterThan(3 * 2 ** 20);
});
