/** The steps that costs are fitted to are those that the scheduler makes. */
import { expect, it } from 'vitest';
import { prefillSteps } from '../../src/simulate/costs/shapes.ts';
import { shapeOf } from '../../src/simulate/costs/types.ts';
import { engineConfig, request, TestEngine, tokens } from '../engine/fakes.ts';

it.each([1, 31, 32, 33, 64, 100])('a prompt of %s tokens is cut as the scheduler cuts it', async (length) => {
  const maxNumBatchedTokens = 32;
  const engine = new TestEngine(engineConfig({ maxNumBatchedTokens, numBlocks: 32 }));
  engine.add(request('a', tokens(length), { maxTokens: 1 }));
  await engine.settle();
  expect(engine.model.batches.map(shapeOf)).toEqual(prefillSteps(length, maxNumBatchedTokens));
});

it('what has KV already is left out', async () => {
  const maxNumBatchedTokens = 32;
  const engine = new TestEngine(engineConfig({ maxNumBatchedTokens, numBlocks: 32 }));
  const prompt = tokens(100);
  engine.add(request('a', prompt.slice(0, 49), { maxTokens: 1 }));
  await engine.settle();
  const before = engine.model.batches.length;
  engine.add(request('b', prompt, { maxTokens: 1 }));
  await engine.settle();
  expect(engine.model.batches.slice(before).map(shapeOf)).toEqual(prefillSteps(100, maxNumBatchedTokens, 48));
});
