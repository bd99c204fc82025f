import { describe, expect, it } from 'vitest';
import {
  type AutoscaleDecision,
  AutoscaleLoop,
  drive,
  reasonOf,
} from '../../../src/router/autoscale/loop.ts';
import type { AutoscaleChoice } from '../../../src/router/autoscale/registry.ts';
import type { EngineSignals, EngineView } from '../../../src/router/plan.ts';
import type { ScaleTarget } from '../../../src/router/scaling/plan.ts';
import type { TurnResult } from '../../../src/router/turn-types.ts';
import { settled, TestClock } from '../../clock.ts';
import { view } from '../policies.ts';

const bounds = { prefill: { min: 1, max: 4 }, decode: { min: 1, max: 4 } };
const choice = (more: Partial<AutoscaleChoice> = {}): AutoscaleChoice => ({
  name: 'aibrix-apa',
  parameters: {},
  intervalMs: null,
  bounds,
  ...more,
});
const signals = (more: Partial<EngineSignals>): EngineSignals => ({
  ...{ atMs: 0, running: 0, waiting: 0, waitingForRemote: 0, freeBlocks: 50, numBlocks: 100 },
  ...{ promptTokensPerSecond: 0, generationTokensPerSecond: 0, endedPerSecond: 0 },
  ...more,
});
const engine = (id: string, more: Partial<EngineSignals> = {}): EngineView =>
  view(id, { signals: signals(more) });

describe('the value that a rule gets', () => {
  it.each([
    ['waiting', 7],
    ['running', 4],
    ['in-flight', 9],
    // Percent of 8 slots.
    ['batch', 50],
    ['kv', 50],
  ])('for P is its metric %s', (metric, value) => {
    const parameters = { prefill: { metric, target: 1000 } };
    const loop = new AutoscaleLoop(choice({ parameters }), 8);
    const busy = { ...engine('p0', { running: 4, waiting: 5, waitingForRemote: 2 }), inFlight: 9 };
    expect(loop.tick(0, [busy, engine('d0')]).roles.prefill.value).toBe(value);
  });

  it("is by default P's queue and D's share of the batch, without engines that reported nothing", () => {
    const loop = new AutoscaleLoop(choice(), 10);
    const views = [engine('p0', { waiting: 20 }), view('p1'), engine('d0', { running: 7 })];
    const { roles, target } = loop.tick(0, views);
    expect(roles.prefill).toMatchObject({ engines: 2, metric: 'waiting', value: 20, want: 4 });
    expect(roles.decode).toMatchObject({ engines: 1, metric: '% of batch', value: 70, want: 1 });
    expect(target).toEqual({ prefill: 4 });
  });

  it('is for dynamo-sla the measured times of turns, and idle engines count as fast', () => {
    const profile = {
      prefillProfile: [{ inputTokens: 100, ttftMs: 10, tokensPerSecond: 1000 }],
      decodeProfile: [{ contextTokens: 100, itlMs: 5, tokensPerSecond: 100 }],
    };
    const parameters = { ttftMs: 100, itlMs: 20, ...profile };
    const loop = new AutoscaleLoop(choice({ name: 'dynamo-sla', parameters }), 8);
    const turn = (ttftMs: number, tpotMs: number) =>
      ({
        routed: { prefill: 'p0', decode: 'd0' },
        prompt: { promptTokens: 10 },
        outputTokenIds: [1],
        ...{ ttftMs, tpotMs },
      }) as unknown as TurnResult;
    loop.turnEnded(turn(150, 30), 0);
    const pair = [view('p0', { inFlight: 1 }), view('d0', { inFlight: 1 })];
    const up = loop.tick(1000, pair);
    expect(up.roles.prefill).toMatchObject({ metric: 'ms TTFT', value: 150, want: 2 });
    expect(up.roles.decode).toMatchObject({ metric: 'ms a token', value: 30, want: 2 });
    const four = ['p0', 'p1', 'd0', 'd1'].map((id) => view(id));
    // Six seconds later those times no longer count, and every engine is idle.
    expect(loop.tick(7000, four).target).toEqual({ prefill: 1, decode: 1 });
  });

  it('leaves out combined engines, and takes no value of ended ones', () => {
    const loop = new AutoscaleLoop(choice(), 8);
    const views = [
      engine('p0', { waiting: 20 }),
      { ...engine('p1', { waiting: 900 }), ended: true },
      engine('d0'),
      view('d1', { combined: true }),
    ];
    const { roles } = loop.tick(0, views);
    expect(roles).toMatchObject({ prefill: { engines: 2, value: 20 }, decode: { engines: 1 } });
  });

  it.each(['aibrix-apa', 'aibrix-kpa', 'k8s-hpa'] as const)(
    'is not taken by %s for a smaller fleet when engines ended that will be replaced',
    (name) => {
      const loop = new AutoscaleLoop(choice({ name }), 8);
      const four = ['p0', 'p1', 'd0', 'd1'].map((id) => engine(id, { running: 8, waiting: 10 }));
      for (let atMs = 0; atMs < 60_000; atMs += loop.intervalMs) loop.tick(atMs, four);
      const ended = four.map((each) => ({ ...each, ended: true, signals: null }));
      expect(loop.tick(60_000, ended).target?.prefill ?? 2).toBeGreaterThanOrEqual(2);
    },
  );
});

describe('bounds', () => {
  it.each(['aibrix-apa', 'aibrix-kpa', 'k8s-hpa'] as const)('limit what %s wants', (name) => {
    const tight = { prefill: { min: 1, max: 3 }, decode: { min: 2, max: 2 } };
    const loop = new AutoscaleLoop(choice({ name, bounds: tight }), 8);
    const views = [engine('p0', { waiting: 900 }), engine('p1', { waiting: 900 }), engine('d0')];
    expect(loop.tick(0, views).target).toEqual({ prefill: 3, decode: 2 });
  });

  it('do not make dynamo-sla wait for a size outside of them', () => {
    const parameters = {
      prefillProfile: [{ inputTokens: 100, ttftMs: 10, tokensPerSecond: 1000 }],
      decodeProfile: [{ contextTokens: 100, itlMs: 5, tokensPerSecond: 100 }],
    };
    const tight = { prefill: { min: 2, max: 2 }, decode: { min: 1, max: 4 } };
    const loop = new AutoscaleLoop(choice({ name: 'dynamo-sla', parameters, bounds: tight }), 8);
    const two = ['p0', 'p1', 'd0', 'd1'].map((id) => view(id));
    expect(loop.tick(0, two).target).toEqual({ decode: 1 });
    const { roles } = loop.tick(6000, two.slice(0, 3));
    expect(roles.decode.why).not.toContain('not done');
  });

  it.each([
    [{ bounds: { ...bounds, decode: { min: 3, max: 2 } } }, '--min-decode is 3 and --max-decode is 2'],
    [
      { parameters: { prefil: {} } },
      "parameters for 'prefil' (did you mean prefill?): wanted prefill and decode",
    ],
    [
      { parameters: { prefill: { metric: 'speed' } } },
      '--autoscale aibrix-apa, prefill, metric is "speed": wanted one of waiting, running',
    ],
    [
      { parameters: { decode: { target: -1 } } },
      '--autoscale aibrix-apa, decode, target is -1: wanted above 0',
    ],
    [{ parameters: { decode: { maxEngines: 1.5 } } }, 'decode, maxEngines is 1.5: wanted a whole number'],
    [{ parameters: { decode: 3 } }, '--autoscale aibrix-apa, decode is 3: wanted an object'],
    [
      { name: 'dynamo-sla' as const },
      '--autoscale dynamo-sla, prefillProfile is not given: wanted measurements of one engine in --autoscale-config, such as [{"inputTokens":',
    ],
  ])('and parameters are refused with a clear message if wrong: %j', (more, message) => {
    expect(() => new AutoscaleLoop(choice(more), 8)).toThrow(message);
  });
});

describe('the autoscaling loop', () => {
  const driven = (waiting: () => number, changing = () => false, rule = choice()) => {
    const clock = new TestClock(0);
    const stop = new AbortController();
    const asked: [ScaleTarget, string][] = [];
    const told: AutoscaleDecision[] = [];
    const acts: boolean[] = [];
    const failures: unknown[] = [];
    const ends: { resolve: () => void; reject: (error: Error) => void }[] = [];
    const done = drive(new AutoscaleLoop(rule, 8), {
      clock,
      signal: stop.signal,
      views: () => [engine('p0', { waiting: waiting() }), engine('d0', { running: 5 })],
      scale: (target, why) =>
        new Promise<void>((resolve, reject) => {
          asked.push([target, why]);
          ends.push({ resolve, reject });
        }),
      changing,
      report(each) {
        if (each.kind === 'fails') return void failures.push(each.error);
        told.push(each.decision);
        acts.push(each.acts);
      },
    });
    const pass = async (ms: number) => {
      for (let left = ms; left > 0; left -= 1000) {
        clock.advance(1000);
        await settled();
      }
    };
    return { asked, told, acts, failures, ends, pass, stop, done };
  };

  it('decides every ten seconds, and requests one change at a time', async () => {
    const { asked, told, acts, ends, pass, stop, done } = driven(() => 15);
    await pass(9000);
    expect(told).toHaveLength(0);
    await pass(1000);
    expect(asked).toEqual([
      [{ prefill: 2 }, 'aibrix-apa: prefill 1 to 2 (waiting: 15 per engine is 1.50 of 10)'],
    ]);
    await pass(20_000);
    expect(told).toHaveLength(3);
    expect(acts).toEqual([true, false, false]);
    expect(asked).toHaveLength(1);
    ends[0]!.resolve();
    await pass(10_000);
    expect(asked).toHaveLength(2);
    stop.abort();
    await done;
  });

  it('waits for a change by others as it does for its own', async () => {
    let others = true;
    const { asked, acts, failures, pass, stop, done } = driven(
      () => 15,
      () => others,
    );
    await pass(20_000);
    expect(acts).toEqual([false, false]);
    others = false;
    await pass(10_000);
    expect(acts).toEqual([false, false, true]);
    expect(asked).toHaveLength(1);
    expect(failures).toEqual([]);
    stop.abort();
    await done;
  });

  it('does not count a change that it held back because of another one', async () => {
    let others = true;
    const rule = choice({ name: 'k8s-hpa', intervalMs: 5000 });
    const { asked, pass, stop, done } = driven(
      () => 30,
      () => others,
      rule,
    );
    await pass(10_000);
    others = false;
    await pass(5000);
    expect(asked.map(([target]) => target)).toEqual([{ prefill: 3 }]);
    stop.abort();
    await done;
  });

  it('reports a change that failed, and continues', async () => {
    const { asked, failures, ends, pass, stop, done } = driven(() => 15);
    await pass(10_000);
    ends[0]!.reject(new Error('no room'));
    await pass(10_000);
    expect(failures).toEqual([new Error('no room')]);
    expect(asked).toHaveLength(2);
    stop.abort();
    await done;
  });

  it('requests nothing if there are as many engines as wanted', async () => {
    const { asked, told, pass, stop, done } = driven(() => 10);
    await pass(30_000);
    expect(asked).toEqual([]);
    expect(reasonOf(told[0]!)).toBe(
      'aibrix-apa: prefill stays 1 (waiting: 10 per engine is 1.00 of 10), decode stays 1 (% of batch: 62.5 per engine is 0.89 of 70)',
    );
    stop.abort();
    await done;
  });
});
