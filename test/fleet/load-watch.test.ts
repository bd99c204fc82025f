/** What listeners to the engines' load learn of engines that report nothing new. */
import { expect, test } from 'vitest';
import type { EngineLoad } from '../../src/engine/inspect/engine-load.ts';
import { type LoadNews, LoadWatch } from '../../src/fleet/load-watch.ts';
import type { ThreadEngine } from '../../src/fleet/thread-engine.ts';
import type { EngineEvent } from '../../src/host/engine-report.ts';

/** An idle engine: reports once when it is asked to report. */
function idle(engineId: string) {
  const asked: boolean[] = [];
  let tell: (event: EngineEvent) => void = () => {};
  let die: () => void = () => {};
  const report = (freeBlocks: number) => tell({ kind: 'load', load: { freeBlocks } as EngineLoad });
  const engine = {
    engineId,
    inspection: { reportLoad: async (enabled: boolean) => void asked.push(enabled) },
    onEvent: (listener: typeof tell) => {
      tell = listener;
    },
    onDeath: (listener: typeof die) => {
      die = listener;
    },
  } as unknown as ThreadEngine;
  return { engine, asked, report, die: () => die() };
}

const follow = (loads: LoadWatch) => {
  const heard: [string, number][] = [];
  const stop = loads.listen(({ engineId, load }: LoadNews) => heard.push([engineId, load.freeBlocks]));
  return { heard, stop };
};

test('a later listener gets the last report of each engine, since an idle one sends no other', () => {
  const loads = new LoadWatch();
  const [p, d] = [idle('p'), idle('d')];
  for (const { engine } of [p, d]) loads.watch(engine);
  const first = follow(loads);
  for (const free of [7, 9]) p.report(free);
  d.report(5);
  const second = follow(loads);
  expect(second.heard).toEqual([
    ['p', 9],
    ['d', 5],
  ]);
  p.report(8);
  expect(second.heard.at(-1)).toEqual(['p', 8]);
  expect(first.heard).toHaveLength(4);
  expect(p.asked).toEqual([true]);
});

test('a later listener gets nothing of an engine that ended', () => {
  const loads = new LoadWatch();
  const [p, d] = [idle('p'), idle('d')];
  for (const { engine } of [p, d]) loads.watch(engine);
  follow(loads);
  for (const { report } of [p, d]) report(1);
  d.die();
  expect(follow(loads).heard).toEqual([['p', 1]]);
});

test('after a time without listeners, engines are asked again, and what they said before is not passed on', () => {
  const loads = new LoadWatch();
  const p = idle('p');
  loads.watch(p.engine);
  const first = follow(loads);
  p.report(1);
  first.stop();
  p.report(2);
  const second = follow(loads);
  expect(second.heard).toEqual([]);
  expect(p.asked).toEqual([true, false, true]);
});
