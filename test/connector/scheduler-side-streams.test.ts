/** What the scheduler side reports of a prompt that is read while it is computed, and of a request with a streamed READ. */
import { describe, expect, it } from 'vitest';
import { request } from '../engine/fakes.ts';
import { decodeRequest, prefillRequest, ScriptedEngine, tokens } from './scripted.ts';

describe('a prompt that is read while it is computed', () => {
  it('is reported without blocks when a preemption frees them', async () => {
    const engine = new ScriptedEngine({ numBlocks: 7, maxNumBatchedTokens: 20, prefixCaching: false });
    engine.add(request('elder', tokens(16, 1), { maxTokens: 40 }));
    const streamed = prefillRequest('p', tokens(64, 2), null, { streamed: true });
    engine.add({ ...streamed, sampling: { ...streamed.sampling, maxTokens: 12 } });
    while (engine.computed('p') !== 0 || engine.status('p') !== 'preempted') await engine.step();
    const told = engine.worker.metadata.flatMap(({ computed }) => computed.get('p') ?? []);
    expect(told.at(-2)!.numTokens).toBeGreaterThan(0);
    expect(told.at(-1)).toMatchObject({ numTokens: 0, blockIds: [] });
    await engine.settle();
    expect(engine.finishOf('p')).toMatchObject({ reason: 'length' });
  });

  it('is reported with the blocks that have KV, and no further ones of its table', async () => {
    const engine = new ScriptedEngine({}, { loadFailurePolicy: 'recompute' });
    engine.add(prefillRequest('p', tokens(64), tokens(64).slice(0, 48), { streamed: true }));
    await engine.step();
    const [first, second, third] = engine.blocks('p');
    engine.arrive('p', 2);
    engine.worker.failRecving('p', 'failed', [third!]);
    await engine.step();
    const told = engine.worker.metadata.flatMap(({ computed }) => computed.get('p') ?? []);
    expect(told).toContainEqual(expect.objectContaining({ numTokens: 32, blockIds: [[first, second]] }));
  });
});

describe('a request with a streamed READ', () => {
  const reads = async () => {
    const engine = new ScriptedEngine();
    engine.add(decodeRequest('d', tokens(40), 4, { streamed: true, remote_block_ids: null }));
    await engine.step();
    expect(engine.worker.recv('d')).toMatchObject({ streamed: true });
    const cancelled = () => engine.worker.metadata.some(({ reqsToCancel }) => reqsToCancel.has('d'));
    return { engine, cancelled };
  };

  it('cancels the READ when it is aborted', async () => {
    const { engine, cancelled } = await reads();
    engine.core.abortRequest('d');
    expect(engine.core.poll()).toBe(true);
    await engine.step();
    expect(cancelled()).toBe(true);
    engine.worker.finishRecving('d');
    await engine.settle();
    expect(engine.isEmpty).toBe(true);
  });

  it('cancels nothing after the READ has ended', async () => {
    const { engine, cancelled } = await reads();
    engine.receive('d');
    await engine.settle();
    expect(engine.finishOf('d')).toMatchObject({ reason: 'length' });
    expect(cancelled()).toBe(false);
  });
});
