/**
 * `npm run bench:store`: the costs of a store, each compared with a reference in the same run.
 * - Eviction policies: operations per second on a Zipf-like stream, and the time of a lookup of 1,000 hashes. With
 *   `--trace FILE` (JSON lines with hash_ids, like Mooncake's), the hit share of stores with 1, 5 and 20% of the footprint.
 * - Folder: its reads compared with plain reads.
 * - Engines (`--model none` skips them): loads compared with transfers between engines, and serving with and without saves.
 * `--rounds`: repetitions.
 */
import { readFileSync } from 'node:fs';
import { EVICTIONS, type EvictionName } from '../../config/store.ts';
import { FULL_GROUP } from '../../engine/kv-cache-spec.ts';
import { ConfigError, messageOf } from '../../errors.ts';
import { quantile } from '../../measure/statistics.ts';
import { left, right } from '../../report/document.ts';
import { BlockCatalog } from '../../store/catalog.ts';
import { makeEviction } from '../../store/eviction/make.ts';
import { heldPrefix } from '../../store/held-prefix.ts';
import { sumOf } from '../../sum.ts';
import { Random } from '../../workload/random.ts';
import { plainStyle, renderTable } from '../output/table.ts';
import { benchOptions, report, runBench, spread } from './options.ts';
import { engineLines, measureWithEngines } from './store/engines.ts';
import { folderLines, measureFolder } from './store/folder.ts';

const OPERATIONS = 1_000_000;
const KEYS = 100_000;
const CAPACITY = 10_000;
/** Operations per second, on one thread. */
const GOAL = 1_000_000;
const LOOKUP = 1000;
/** Store sizes as shares of a trace's different blocks. */
const FOOTPRINTS = [0.01, 0.05, 0.2] as const;

await runBench(async () => {
  const options = await benchOptions(
    'bench:store',
    "a store's eviction policies, its folder, loads and saves; hits on a trace (--model none: without engines)",
    { model: 'tiny', rounds: 7 },
    { 'trace FILE': "a trace to find hits on: JSON lines with hash_ids, as Mooncake's" },
  );
  const stream = skewed();
  const speeds = EVICTIONS.map((name) => ({ name, ...speedOf(name, stream, options.rounds) }));
  const million = (perSecond: number): string => (perSecond / 1e6).toFixed(2);
  const speedRows = speeds.map(({ name, perSecond, lookupMs }) => [
    name,
    million(quantile(perSecond, 0.5)),
    million(Math.min(...perSecond)),
    quantile(perSecond, 0.5) >= GOAL ? 'within' : 'MISSED',
    spread(lookupMs),
  ]);
  const lines = renderTable(
    [left('policy'), ...right('M ops/s', 'min', 'goal 1.0'), ...right(`lookup of ${LOOKUP}`)],
    speedRows,
    plainStyle,
  );
  const { trace } = options.own;
  const hits = trace === undefined ? null : hitRates(readTrace(trace));
  if (hits) {
    const rows = hits.rates.map(({ name, shares }) => [
      name,
      ...shares.map((share) => `${(100 * share).toFixed(2)}%`),
    ]);
    rows.push(['unbounded', ...FOOTPRINTS.map(() => `${(100 * hits.unbounded).toFixed(2)}%`)]);
    const heads = FOOTPRINTS.map((share) => `${100 * share}%`);
    lines.push(
      '',
      `Blocks found, of ${hits.asked} looked up; ${hits.different} different; store size as a share of these:`,
      ...renderTable([left('policy'), ...right(...heads)], rows, plainStyle),
    );
  }
  const folder = await measureFolder(options.rounds);
  lines.push('', ...folderLines(folder));
  const engines = options.model === 'none' ? null : await measureWithEngines(options);
  if (engines) lines.push('', ...engineLines(engines));
  report(options, lines, { folder, engines, operations: OPERATIONS, capacity: CAPACITY, speeds, hits });
});

/** Zipf-like keys: rank r is used about 1/r times as often as the first. */
function skewed(): string[] {
  const random = new Random(1);
  const names = Array.from({ length: KEYS }, (_, i) => i.toString(16).padStart(64, '0'));
  return Array.from({ length: OPERATIONS }, () => names[Math.floor(KEYS ** random.float()) - 1]!);
}

function speedOf(name: EvictionName, stream: readonly string[], rounds: number) {
  const perSecond: number[] = [];
  const lookupMs: number[] = [];
  for (let round = 0; round < rounds; round++) {
    const policy = makeEviction(name, { capacity: CAPACITY });
    const begun = performance.now();
    for (const key of stream) {
      if (policy.has(key)) policy.touch(key);
      else policy.put(key);
    }
    perSecond.push((1000 * stream.length) / (performance.now() - begun));
    lookupMs.push(lookupOf(name, stream));
  }
  return { perSecond, lookupMs };
}

/** All keys are present, the slowest case. */
function lookupOf(name: EvictionName, stream: readonly string[]): number {
  const catalog = new BlockCatalog({ slots: CAPACITY, eviction: name });
  const keys = [...new Set(stream)].slice(0, CAPACITY);
  for (const key of keys) {
    catalog.prepareStore(key);
    catalog.completeStore(key, true);
  }
  const asked = keys.slice(-LOOKUP);
  const begun = performance.now();
  catalog.prepareLoad(heldOf(catalog, asked));
  return performance.now() - begun;
}

/** A lookup like the store service's: the number of leading keys that are present. */
function heldOf(catalog: BlockCatalog, hashes: readonly string[]): readonly string[] {
  const asked = { hashes, groups: FULL_GROUP, chunk: 1, blockSize: 1 };
  const held = heldPrefix(asked, (key) => catalog.slotOf(key));
  catalog.countLookup(hashes.length, held[0]!.length);
  return hashes.slice(0, held[0]!.length);
}

function readTrace(path: string): string[][] {
  const requests = parseTrace(path);
  if (requests.every((keys) => keys.length === 0))
    throw new ConfigError(`--trace ${path} has no request with hash_ids: wanted at least one`);
  return requests;
}

function parseTrace(path: string): string[][] {
  try {
    return readFileSync(path, 'utf8')
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => (JSON.parse(line) as { hash_ids: number[] }).hash_ids.map(String));
  } catch (error) {
    throw new ConfigError(
      `--trace ${path} cannot be read: ${messageOf(error)}; wanted a file of JSON lines with hash_ids`,
    );
  }
}

/** Counts hits like a prefix cache: a request's leading blocks up to the first missing one; then all are put. */
function hitRates(trace: readonly string[][]) {
  const different = new Set(trace.flat()).size;
  const asked = sumOf(trace, (keys) => keys.length);
  const rates = EVICTIONS.map((name) => ({
    name,
    shares: FOOTPRINTS.map((share) => found(name, Math.max(1, Math.round(different * share)), trace) / asked),
  }));
  return { different, asked, rates, unbounded: found('lru', different, trace) / asked };
}

function found(name: EvictionName, slots: number, trace: readonly string[][]): number {
  const catalog = new BlockCatalog({ slots, eviction: name });
  for (const keys of trace) {
    const there = heldOf(catalog, keys);
    catalog.prepareLoad(there);
    catalog.completeLoad(there);
    const kept = catalog.keepText(there.at(-1) ?? null);
    const put: string[] = [];
    for (const [i, key] of keys.entries()) {
      if (catalog.state(key) !== 'absent') continue;
      if (catalog.prepareStore(key, keys[i - 1] ?? null) === null) break;
      put.push(key);
    }
    for (const key of put) catalog.completeStore(key, true);
    catalog.completeLoad(kept);
  }
  return catalog.counters.hits;
}
