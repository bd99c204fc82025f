import { describe, expect, it } from 'vitest';
import { plainFleet } from '../../src/fleet/seats.ts';
import type { BenchSample } from '../../src/measure/schemas/bench-mode-schema.ts';
import type { BenchReport } from '../../src/measure/schemas/bench-report.ts';
import { fitReport } from '../../src/simulate/costs/fit-report.ts';
import { linearCosts, simulationCostsSchema } from '../../src/simulate/costs/linear.ts';
import { greedy, simulated, turn } from './simulated.ts';

const TRUE = { fixed: 4, token: 0.5, context: 0.0001, decode: 2, rest: 30 };

/** Requests that come `gapMs` apart to one engine with the costs TRUE; decoding requests slow each other. */
function samples(count: number, gapMs: number, more: Partial<BenchSample> = {}): BenchSample[] {
  const all = Array.from({ length: count }, (_, i) => {
    const input = 100 + 137 * (i % 7);
    const ttft =
      TRUE.rest +
      2 * TRUE.fixed +
      TRUE.decode +
      TRUE.token * input +
      (TRUE.context * input * (input - 1)) / 2;
    return { i, input, ttft, start: gapMs * i };
  });
  // As many as decode at once, in the steady state of equal gaps.
  return all.map(({ i, input, ttft, start }): BenchSample => {
    const decoding = 1 + (i % 3);
    const tpot = TRUE.fixed + TRUE.decode * decoding;
    return {
      round: 1,
      conversation_id: String(i),
      turn: 1,
      client: 0,
      start_ms: start,
      ttft_ms: ttft,
      tpot_ms: tpot,
      latency_ms: ttft + 50 * tpot,
      input_num_turns: 1,
      input_num_tokens: input,
      output_num_tokens: 51,
      output_num_chunks: 50,
      local_hit_tokens: 0,
      pulled_tokens: 0,
      computed_tokens: input,
      stages_ms: {},
      ...more,
    };
  });
}

/** Only what the fit reads. */
const reportOf = (list: readonly BenchSample[]): BenchReport =>
  ({
    adapter: { name: 'none' },
    target: { model: 'llama', url: 'http://h:1' },
    experiments: { a: { modes: { server: { samples: list } } } },
  }) as unknown as BenchReport;

/** One to three that come together, then a pause: each decodes with the others of its group. */
function groups(): BenchSample[] {
  const list: BenchSample[] = [];
  for (let group = 0; group < 30; group++) {
    const size = 1 + (group % 3);
    for (const sample of samples(7, 0).slice(0, size)) {
      const input = 200 + 61 * (group % 9);
      const ttft =
        TRUE.rest +
        2 * TRUE.fixed +
        TRUE.decode +
        TRUE.token * input +
        (TRUE.context * input * (input - 1)) / 2;
      const tpot = TRUE.fixed + TRUE.decode * size;
      list.push({
        ...sample,
        conversation_id: `${group}-${list.length}`,
        start_ms: 100_000 * group,
        input_num_tokens: input,
        computed_tokens: input,
        ttft_ms: ttft,
        tpot_ms: tpot,
        latency_ms: ttft + 50 * tpot,
      });
    }
  }
  return list;
}

describe('costs fitted to a report', () => {
  it('ignore an answer that came nearly at once, and say so', () => {
    const list = groups().map((sample, i) => (i === 7 ? { ...sample, tpot_ms: 0.01 } : sample));
    const { file, medianError, requests, notes } = fitReport(reportOf(list), 'r.json', null);
    expect(file.step.fixed_ms).toBeCloseTo(TRUE.fixed, 0);
    expect(file.step.ms_per_decode).toBeCloseTo(TRUE.decode, 0);
    expect(medianError.tpot).toBeLessThan(0.02);
    expect(requests.tpot).toBe(59);
    expect(notes.join()).toContain('1 answer came nearly at once');
  });

  it('have no time for decoding if every answer is one token, and say so', () => {
    const list = groups().map((sample) => ({ ...sample, tpot_ms: 0, output_num_tokens: 1 }));
    const { file, notes } = fitReport(reportOf(list), 'r.json', null);
    expect(file.step).toMatchObject({ fixed_ms: 0, ms_per_decode: 0, ms_per_decode_context: 0 });
    expect(notes.join()).toContain('Too few answers of several tokens');
  });

  it('are those that generated the times, in a file that simulate reads', () => {
    const { file, medianError, requests } = fitReport(reportOf(groups()), 'r.json', null);
    expect(simulationCostsSchema.parse(file)).toEqual(file);
    expect(file).toMatchObject({
      source: 'fitted',
      name: 'llama, as r.json saw it',
      max_num_batched_tokens: null,
    });
    expect(file.step.ms_per_prefill_token).toBeCloseTo(TRUE.token, 2);
    expect(file.step.ms_per_prefill_context).toBeCloseTo(TRUE.context, 4);
    expect(file.step.fixed_ms).toBeCloseTo(TRUE.fixed, 0);
    expect(file.step.ms_per_decode).toBeCloseTo(TRUE.decode, 0);
    expect(medianError.ttft).toBeLessThan(0.01);
    expect(medianError.tpot).toBeLessThan(0.02);
    expect(requests.ttft).toBe(60);
    // A handover in a simulation: a prefill step, one step of D, and the rest.
    const costs = linearCosts(file);
    const place = { role: 'prefill' as const, poolUsed: 0, maxNumSeqs: 1 };
    const none = { decodes: 0, decodeContext: 0, prefills: 0, prefillTokens: 0, prefillContext: 0 };
    const input = 500;
    const ms =
      costs.stepMs(
        { ...none, prefills: 1, prefillTokens: input, prefillContext: (input * (input - 1)) / 2 },
        place,
      ) +
      costs.stepMs({ ...none, decodes: 1, decodeContext: input }, place) +
      costs.replyMs;
    const wanted =
      TRUE.rest +
      2 * TRUE.fixed +
      TRUE.decode +
      TRUE.token * input +
      (TRUE.context * input * (input - 1)) / 2;
    expect(Math.abs(ms / wanted - 1)).toBeLessThan(0.02);
  });

  it('come from the modes that hand over, if the report has any', () => {
    const of = (...modes: string[]): BenchReport => {
      const arm = (mode: string) => ({
        mode,
        samples: groups().map((one) =>
          mode === 'unidirectional' ? one : { ...one, ttft_ms: one.ttft_ms - TRUE.rest },
        ),
      });
      return {
        ...reportOf([]),
        experiments: { a: { modes: Object.fromEntries(modes.map((mode) => [mode, arm(mode)])) } },
      } as unknown as BenchReport;
    };
    const alone = fitReport(of('unidirectional'), 'r.json', null);
    expect(fitReport(of('unidirectional', 'decode-local', 'monolithic'), 'r.json', null)).toEqual(alone);
    expect(fitReport(of('monolithic'), 'r.json', null).file.reply_ms).toBeLessThan(alone.file.reply_ms);
  });

  it('give an engine that serves alone the TTFT that was reported', async () => {
    // 80 ms and 0.1 ms a token; 20 ms a token that is generated.
    const list = samples(20, 1e6).map((sample) => {
      const ttft_ms = 80 + 0.1 * sample.input_num_tokens;
      return { ...sample, ttft_ms, tpot_ms: 20, latency_ms: ttft_ms + 50 * 20 };
    });
    const report = reportOf([]);
    report.experiments = { a: { modes: { monolithic: { mode: 'monolithic', samples: list } } } } as never;
    const costs = linearCosts(fitReport(report, 'r.json', null).file);
    const cluster = simulated({ options: { mode: 'monolithic', maxNumBatchedTokens: 2048 } }, costs);
    const promptTokenIds = Array.from({ length: 1000 }, (_, i) => 8 + (i % 400));
    const request = { conversationId: 'a', promptTokenIds, sampling: greedy(3) };
    const { ttftMs, tpotMs } = await cluster.run(turn(cluster, request));
    expect(ttftMs).toBeCloseTo(180);
    expect(tpotMs).toBeCloseTo(20);
  });

  it('count requests that pulled among those that decode at the same time', () => {
    // Four, eight or twelve at a time, of which three in four pulled their history.
    const list = [4, 8, 12].flatMap((size, group) =>
      samples(size * 3, 0).map((sample, i) => {
        const ttft = TRUE.rest + TRUE.token * sample.input_num_tokens;
        const tpot = TRUE.fixed + TRUE.decode * size;
        return {
          ...sample,
          // Three such lots, one after the other; each lot begins to decode at once.
          start_ms: 1e6 * group + 1e5 * Math.floor(i / size) - ttft,
          ...{ ttft_ms: ttft, tpot_ms: tpot, latency_ms: ttft + 50 * tpot },
          pulled_tokens: i % 4 === 0 ? 0 : 90,
        };
      }),
    );
    const { file, requests } = fitReport(reportOf(list), 'r.json', null);
    expect(requests.tpot).toBe(list.length / 4);
    expect(file.step.ms_per_decode).toBeCloseTo(TRUE.decode, 1);
  });

  it.each([
    ['what it computes', { prefill: 1, token: 0.5, ahead: 0.5 }, 'simulated anyway'],
    ['what two P compute', { prefill: 2, token: 0.5, ahead: 0.25 }, 'simulated anyway'],
    ['more than it computes', { prefill: 1, token: 0.01, ahead: 0.5 }, 'TTFT will be too short'],
    ['more than two P compute', { prefill: 2, token: 0.5, ahead: 0.5 }, 'TTFT will be too short'],
  ])('tell whether a simulation queues as the server did: %s', (_, { prefill, token, ahead }, note) => {
    // Three arrive one after the other; the next three when these have ended.
    const list = Array.from({ length: 20 }, (_, group) => {
      let before = 0;
      return samples(3, 1).map((sample, i) => {
        const input = 100 + 137 * ((3 * group + 5 * i) % 7);
        const ttft_ms = 100 + token * input + ahead * before;
        before += input;
        return {
          ...sample,
          start_ms: 1e6 * group + i,
          ...{ ttft_ms, latency_ms: ttft_ms + 50 * sample.tpot_ms },
          ...{ input_num_tokens: input, computed_tokens: input },
        };
      });
    }).flat();
    const { file, notes } = fitReport(reportOf(list), 'r.json', plainFleet({ prefill, decode: 1 }));
    expect(file.step.ms_per_prefill_token).toBeCloseTo(token, 6);
    expect(notes.join()).toContain(`Each prompt token ahead of a request adds ${ahead.toPrecision(3)} ms`);
    expect(notes.join()).toContain(note);
  });

  it('are for the D that are given, or those of a report of engines here; for a server, a note says to give them', () => {
    const here = (config: object): BenchReport =>
      ({ ...reportOf(groups()), config, target: { model: 'tiny', url: null } }) as unknown as BenchReport;
    const perDecode = (report: BenchReport, decode: number | null) => {
      const fleet = decode === null ? null : plainFleet({ prefill: 1, decode });
      const { file, notes } = fitReport(report, 'r.json', fleet);
      return [file.step.ms_per_decode, notes.join().includes('give --decode N')];
    };
    // Two more requests at a time slow a step by 2 * TRUE.decode; half of them are on the same D.
    const [one, two] = [expect.closeTo(TRUE.decode, 0), expect.closeTo(2 * TRUE.decode, 0)];
    expect(perDecode(here({}), null)).toEqual([one, false]);
    expect(perDecode(here({ decode: 2 }), null)).toEqual([two, false]);
    expect(perDecode(here({ fleet: { rolesets: [{ prefill: 1, decode: 2 }] } }), null)).toEqual([two, false]);
    expect(perDecode(here({ decode: 2 }), 1)).toEqual([one, false]);
    expect(perDecode(reportOf(groups()), null)).toEqual([one, true]);
    expect(perDecode(reportOf(groups()), 2)).toEqual([two, false]);
    expect(() => perDecode(here({ decode: 0 }), null)).toThrow('config.decode of r.json is 0');
  });

  it('include the step size of engines here; for a server, a note says to give it', () => {
    const here = (software: boolean, config: object): BenchReport =>
      ({
        ...reportOf(groups()),
        config,
        adapter: { name: 'lavapipe', software },
        target: { model: 'tiny', url: null },
      }) as unknown as BenchReport;
    const fitOf = (report: BenchReport) => fitReport(report, 'r.json', null);
    expect(fitOf(here(true, { maxNumBatchedTokens: null })).file.max_num_batched_tokens).toBe(256);
    expect(fitOf(here(false, { maxNumBatchedTokens: null })).file.max_num_batched_tokens).toBe(2048);
    expect(fitOf(here(true, { maxNumBatchedTokens: 96 })).file.max_num_batched_tokens).toBe(96);
    expect(fitOf(here(true, {})).notes.join()).not.toContain('--max-num-batched-tokens');
    expect(fitOf(reportOf(groups())).notes.join()).toContain('--max-num-batched-tokens');
  });

  it('come from first turns alone if the server does not report its cache hits, and say so', () => {
    const silent = groups().map((sample, i) => ({
      ...sample,
      computed_tokens: null,
      local_hit_tokens: null,
      pulled_tokens: null,
      // Later turns hit its cache: fast, whatever their prompts.
      ...(i % 2 === 1 ? { turn: 2, ttft_ms: 31 } : {}),
    }));
    const { file, requests, notes } = fitReport(reportOf(silent), 'r.json', null);
    expect(requests.ttft).toBe(30);
    expect(notes).toContainEqual(expect.stringContaining('first turns alone'));
    expect(file.step.ms_per_prefill_token).toBeCloseTo(TRUE.token, 2);
  });

  it('have no time per decoding request if their number never varied, and say so', () => {
    const alone = samples(20, 1e6).map((sample) => ({
      ...sample,
      tpot_ms: 6,
      latency_ms: sample.ttft_ms + 300,
    }));
    const { file, notes } = fitReport(reportOf(alone), 'r.json', null);
    expect(file.step.ms_per_decode).toBe(0);
    expect(notes).toContainEqual(expect.stringContaining('cannot be determined'));
  });

  it.each([
    ['few requests', samples(3, 100), 'r.json has 3 requests that pulled nothing: wanted at least 8'],
    [
      'prompts of one length',
      samples(20, 100).map((one) => ({ ...one, computed_tokens: 100 })),
      'prompts of nearly one length',
    ],
    ['only pulls', samples(20, 100, { pulled_tokens: 5 }), 'has 0 requests that pulled nothing'],
  ])('cannot be fitted to a report with %s', (_, list, message) => {
    expect(() => fitReport(reportOf(list), 'r.json', null)).toThrow(message);
  });
});
