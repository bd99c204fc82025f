import { expect, it } from 'vitest';
import { answerMainThread, liveMemory } from '../../src/cli/bench/live-memory.ts';

/** In place of this process's own, whose garbage takes long to collect. */
const bytes = (): number => 2 ** 40;

it('liveMemory asks again until a replacement engine answers too, and gives up in the end', async () => {
  answerMainThread(bytes);
  await expect(liveMemory(2)).rejects.toThrow('fewer than 2 engines reported their memory');
  const asked = liveMemory();
  // The second engine answers only after the first question.
  answerMainThread(bytes);
  expect(await asked).toBeGreaterThan(2 * 2 ** 40);
});
