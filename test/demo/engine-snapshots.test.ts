/** How the fleet view shows a real engine that ends while it is being inspected. */
import { expect, it } from 'vitest';
import { EngineSnapshots } from '../../demo/src/fleet/real/engine-snapshots.ts';
import { EngineDeadError } from '../../src/errors.ts';
import type { ThreadEngine } from '../../src/fleet/thread-engine.ts';

/** An engine not yet known to have ended, whose answers fail with `error`. */
function answering(error: Error): ThreadEngine {
  const refuse = () => Promise.reject(error);
  const inspection = { blocks: refuse, stats: refuse };
  return { engineId: 'decode-0', role: 'decode', ended: null, inspection } as unknown as ThreadEngine;
}

it('an engine whose thread reports its end is shown as leaving, and as ended once the fleet knows', async () => {
  const ending = answering(new EngineDeadError('the engine is not running: start it again'));
  const { engine, blocks } = await new EngineSnapshots().of(ending, true, 0);
  expect([engine.engineId, engine.state, blocks]).toEqual(['decode-0', 'leaving', null]);
  const known = Object.assign(ending, { ended: new EngineDeadError('engine decode-0 ended') });
  expect((await new EngineSnapshots().of(known, true, 0)).engine).toMatchObject({
    ...{ state: 'ended', why: 'engine decode-0 ended' },
  });
});

it('any other error of an engine is passed on', async () => {
  await expect(new EngineSnapshots().of(answering(new TypeError('no such thing')), true, 0)).rejects.toThrow(
    'no such',
  );
});
