/** What a benchmark prints about pulls that did not happen, and next to published figures. */
import { describe, expect, it } from 'vitest';
import { printBench } from '../../src/cli/multiturn/output.ts';
import { notPulled, publishedTable } from '../../src/cli/multiturn/tables.ts';
import { plainStyle } from '../../src/cli/output/table.ts';
import type { Experiment } from '../../src/measure/schemas/bench-report.ts';
import { benchParts } from '../../src/report/bench.ts';
import { pr32553Published } from '../../src/workload/pr32553.ts';
import { benchReport } from '../report/reports.ts';

const modesWith = (more: object) => {
  const [experiment] = Object.values(benchReport({ ttft: () => 45, rounds: 2, requests: 3 }).experiments);
  const modes = Object.entries(experiment!.modes).map(([key, mode]) => [key, { ...mode, ...more }]);
  return Object.fromEntries(modes) as Experiment['modes'];
};
const none = { policy: 0, request: 0, offer: 0, transfer: 0, preemption: 0 };

describe('notPulled', () => {
  it('says how many holds D dropped for room, and why prompts pulled nothing', () => {
    const given = {
      holds_dropped: { for_p: 12, for_d: 0 },
      not_pulled: { ...none, transfer: 11, policy: 2 },
    };
    expect(notPulled(modesWith(given))).toEqual([
      'bidirectional: D dropped 12 holds for lack of blocks, and P recomputed (--d-blocks); prompts that pulled nothing: 2 by policy, 11 by transfer.',
    ]);
  });

  it('says nothing if KV was pulled, or if no holds were counted', () => {
    const pulled = {
      pulled_tokens: 5,
      not_pulled: { ...none, offer: 3 },
      holds_dropped: { for_p: 0, for_d: 0 },
    };
    expect(notPulled(modesWith(pulled))).toEqual([]);
    expect(notPulled(modesWith({ pulled_tokens: 0 }))).toEqual([]);
  });
});

it('recomputing is called cheaper only if one mode pulls and the other does not', () => {
  const ttft = (mode: string) => (mode === 'bidirectional' ? 90 : 40);
  const report = benchReport({ rounds: 3, requests: 9, ttft });
  const said = (): string => {
    const parts: string[] = [];
    printBench(report, { write: (text) => parts.push(text), isTTY: false, columns: 80 }, false);
    return parts.join('').replaceAll('\n', ' ');
  };
  expect(said()).toContain('slower, between 0.44 and 0.44: recomputing was cheaper here');
  const experiments = Object.values(report.experiments);
  // Against another threshold, which recomputes less.
  for (const { comparison } of experiments) comparison!.reference = 'bidirectional, threshold 2';
  expect(said()).toContain('slower, between 0.44 and 0.44.');
  for (const { modes, comparison } of experiments) {
    comparison!.reference = 'unidirectional';
    modes.bidirectional!.mode = 'decode-local';
  }
  expect(said()).toContain('slower, between 0.44 and 0.44.');
});

it('our p99 is shown from 100 requests on, as in the other tables', () => {
  const lines = (requests: number): string[] => {
    const [experiment] = Object.values(benchReport({ ttft: () => 45, rounds: 1, requests }).experiments);
    return publishedTable(pr32553Published.noPrefixCaching, experiment!.comparison!, plainStyle);
  };
  expect(lines(99).at(-1)).toMatch(/^p99 +2490 +1746 +1\.43x +- +- +-$/);
  expect(lines(100).at(-1)).toMatch(/^p99 +2490 +1746 +1\.43x +45\.0 +45\.0 +1\.00x$/);
});

it('a store shows what went to and from it; times are not compared if a folder kept KV that was loaded', () => {
  const report = benchReport({
    rounds: 3,
    requests: 9,
    ttft: (mode) => (mode === 'bidirectional' ? 30 : 40),
  });
  const said = (): string => {
    const parts: string[] = [];
    printBench(report, { write: (text) => parts.push(text), isTTY: false, columns: 80 }, false);
    return parts.join('').replaceAll('\n', ' ');
  };
  const use = (bytes_from_store: number) => {
    for (const { modes } of Object.values(report.experiments))
      for (const mode of Object.values(modes))
        Object.assign(mode, { bytes_from_store, bytes_to_store: 9e6, two_hop_bytes: 1e6 });
  };
  expect(said()).not.toContain('Store, in');
  report.config.storeDir = './kv';
  use(0);
  expect(said()).toContain('Store, in bidirectional: 9.00 MB saved and nothing loaded, 1.00 MB by two hops.');
  expect(said()).toContain('faster, between');
  expect(said()).toContain('compared with vLLM');
  const tables = () => JSON.stringify(benchParts(report).sections);
  expect(tables()).toContain('ratio');
  use(5e6);
  for (const { modes } of Object.values(report.experiments))
    modes.bidirectional!.label = 'bidirectional, threshold 64';
  expect(said()).toContain('Store, in bidirectional, threshold 64: 9.00 MB saved and 5.00 MB loaded');
  expect(said()).toContain('The times of the modes are not compared: --store-dir keeps KV');
  expect(said()).not.toContain('faster, between');
  expect(said()).not.toContain('compared with vLLM');
  expect(tables()).not.toContain('ratio');
  expect(benchParts(report).headline).toBe('The modes were measured, and are not compared');
});

it('a comparison of routing policies also says what went to and from the store, and what was not pulled', () => {
  const report = benchReport({ rounds: 3, requests: 9, ttft: () => 40 });
  const even = { max_over_mean: 1, jain: 1 };
  for (const { modes } of Object.values(report.experiments))
    for (const mode of Object.values(modes))
      Object.assign(mode, {
        ...{ bytes_from_store: 5e6, bytes_to_store: 9e6 },
        ...{ holds_dropped: { for_p: 12, for_d: 0 }, not_pulled: { policy: 2 } },
        routing: { prefill: even, decode: even, moved_turns: 0, edges: [], goodput: null },
      });
  const parts: string[] = [];
  printBench(report, { write: (text) => parts.push(text), isTTY: false, columns: 80 }, false);
  const said = parts.join('').replaceAll('\n', ' ');
  expect(said).toContain('policies side by side');
  expect(said).toContain('Store, in bidirectional: 9.00 MB saved and 5.00 MB loaded.');
  expect(said).toContain('bidirectional: D dropped 12 holds');
});
