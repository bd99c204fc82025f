/** What the fleet's view makes of a real engine that ends while it is looked at. */
import { expect, it } from 'vitest';
import { EngineLooks } from '../../demo/src/fleet/real/engine-looks.ts';
import { EngineDeadError } from '../../src/errors.ts';
import type { ThreadEngine } from '../../src/fleet/thread-engine.ts';

/** One that nobody has been told the end of, and that answers with an error. */
function answering(error: Error): ThreadEngine {
  const refuse = () => Promise.reject(error);
  const inspection = { blocks: refuse, stats: refuse };
  return { engineId: 'decode-0', role: 'decode', ended: null, inspection } as unknown as ThreadEngine;
}

it('an engine whose thread says that it is ending leaves, and has ended once the fleet knows', async () => {
  const ending = answering(new EngineDeadError('the engine is not running: start it again'));
  const { engine, blocks } = await new EngineLooks().of(ending, true, 0);
  expect([engine.engineId, engine.state, blocks]).toEqual(['decode-0', 'leaving', null]);
  const known = Object.assign(ending, { ended: new EngineDeadError('engine decode-0 ended') });
  expect((await new EngineLooks().of(known, true, 0)).engine).toMatchObject({
    ...{ state: 'ended', why: 'engine decode-0 ended' },
  });
});

it('any other error is nobody’s end', async () => {
  await expect(new EngineLooks().of(answering(new TypeError('no such thing')), true, 0)).rejects.toThrow(
    'no such',
  );
});
