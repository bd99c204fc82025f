/** A server tier on a fake server (a map): damaged, foreign, late and refused blocks are misses, and cost at most a second. */
import { beforeEach, describe, expect, it } from 'vitest';
import { ConfigError } from '../../src/errors.ts';
import type { KeyValueServer } from '../../src/platform/types.ts';
import { FORMAT_VERSION, HEAD_BYTES } from '../../src/store/block-file.ts';
import { ServerTier, type ServerTierOptions } from '../../src/store/server-tier.ts';
import { settled, TestClock } from '../clock.ts';

const BLOCK = 64;
const hash = (n: number): string => n.toString(16).padStart(64, '0');
const NAMESPACE = hash(0xabc);
const kv = (n: number): Uint8Array => new Uint8Array(BLOCK).fill(n % 251);
const keyOf = (n: number, namespace = NAMESPACE): string =>
  `kvferry:${FORMAT_VERSION}:${namespace}:${hash(n)}`;

const values = new Map<string, { value: Uint8Array; ttlMs: number | null }>();
/** Awaited by the server before it answers. */
let answer: () => Promise<void>;
let refusal: string | null;
/** A key whose value is not a string. */
let noString: string | null;
let asked: string[];
let drops: number;
let clock: TestClock;
const troubles: string[] = [];

const server: KeyValueServer = {
  location: 'redis://cache',
  async has(keys) {
    asked.push('has');
    await answer();
    return keys.map((key) => values.has(key));
  },
  async get(key, most) {
    asked.push('get');
    await answer();
    if (key === noString) return { wrong: 'it is not a string' };
    return values.get(key)?.value.subarray(0, most + 1) ?? null;
  },
  async set(key, value, ttlMs) {
    asked.push('set');
    await answer();
    if (refusal === null) values.set(key, { value: value.slice(), ttlMs });
    return refusal;
  },
  async remove(keys) {
    await answer();
    for (const key of keys) values.delete(key);
  },
  drop: () => void drops++,
};

beforeEach(() => {
  values.clear();
  answer = async () => {};
  refusal = null;
  noString = null;
  asked = [];
  drops = 0;
  clock = new TestClock();
});

const open = (changes: Partial<ServerTierOptions> = {}): Promise<ServerTier> => {
  troubles.length = 0;
  return ServerTier.open({
    ...{ server, namespace: NAMESPACE, blockBytes: BLOCK, ttlMs: null, clock },
    onTrouble: (message) => troubles.push(message),
    ...changes,
  });
};

async function stored(tier: ServerTier, ...numbers: number[]): Promise<void> {
  for (const n of numbers) tier.write(hash(n), [kv(n)]);
  await tier.flush();
}

/** Reads the blocks and checks their contents; null for those that are not found. */
async function found(tier: ServerTier, ...numbers: number[]): Promise<(number | null)[]> {
  const there = await tier.find(numbers.map(hash));
  const all = [];
  for (const n of numbers) {
    const into = new Uint8Array(BLOCK);
    const came = there.has(hash(n)) && (await tier.read(hash(n), [into]));
    if (came) expect(into).toEqual(kv(n));
    all.push(came ? n : null);
  }
  return all;
}

const NEVER = () => new Promise<void>(() => {});

/** Lets the requests under way reach their time limit. */
async function late<T>(question: Promise<T>): Promise<T> {
  await settled();
  clock.advance(1_000);
  return question;
}

describe('a server tier', () => {
  it('returns what was written, also to another store, under keys with format and namespace', async () => {
    await stored(await open({ ttlMs: 5_000 }), 1, 2);
    expect([...values.keys()]).toEqual([keyOf(1), keyOf(2)]);
    expect(values.get(keyOf(1))!.ttlMs).toBe(5_000);
    expect(await found(await open(), 1, 2, 3)).toEqual([1, 2, null]);
    expect(await found(await open({ namespace: hash(0xdef) }), 1, 2)).toEqual([null, null]);
    expect(troubles).toEqual([]);
  });

  it('treats a block that others removed as a miss, and writes it again', async () => {
    const changes: string[] = [];
    const tier = await open({ onChange: (kind, which) => changes.push(`${kind} ${Number(`0x${which}`)}`) });
    await stored(tier, 1, 1);
    expect(asked.filter((what) => what === 'set')).toHaveLength(1);
    values.clear();
    // The tier still lists it.
    expect(await tier.read(hash(1), [new Uint8Array(BLOCK)])).toBe(false);
    await stored(tier, 1);
    expect(await found(tier, 1)).toEqual([1]);
    expect(changes).toEqual(['stored 1', 'removed 1', 'stored 1']);
    expect([tier.blocks, [...tier.keys()]]).toEqual([1, [hash(1)]]);
  });

  it.each([
    ['cut short', (value: Uint8Array) => value.subarray(0, value.length - 1)],
    ['that is empty', () => new Uint8Array()],
    ['with a bit flipped', (value: Uint8Array) => value.with(HEAD_BYTES + 9, value[HEAD_BYTES + 9]! ^ 4)],
    ['of another block', () => values.get(keyOf(2))!.value],
  ])('treats a value %s as a miss, and removes, counts and reports it once', async (_, damage) => {
    const tier = await open();
    await stored(tier, 1, 2);
    values.set(keyOf(1), { value: damage(values.get(keyOf(1))!.value), ttlMs: null });
    expect(await found(tier, 1, 2)).toEqual([null, 2]);
    expect(values.has(keyOf(1))).toBe(false);
    expect(tier.counters).toMatchObject({ broken: 1, read: 1, outages: 0 });
    expect(troubles).toEqual([expect.stringMatching(/redis:\/\/cache: kvferry:1:.* is ignored and removed/)]);
  });

  it.each([
    ['longer than a block', /it is longer than a block's 160 bytes$/],
    ['of another type', /it is not a string$/],
  ])('does not read a foreign value %s, but removes, counts and reports it once', async (how, why) => {
    const tier = await open();
    await stored(tier, 1, 2);
    if (how === 'of another type') noString = keyOf(1);
    else values.set(keyOf(1), { value: new Uint8Array(2 ** 20), ttlMs: null });
    expect(await found(tier, 1, 2)).toEqual([null, 2]);
    expect(values.has(keyOf(1))).toBe(false);
    expect(tier.counters).toMatchObject({ foreign: 1, broken: 0, read: 1, outages: 0 });
    expect(troubles).toEqual([expect.stringMatching(why)]);
  });

  it('waits a second for a server that hangs, leaves it alone for ten, reports it once and then resumes', async () => {
    const tier = await open();
    await stored(tier, 1);
    answer = NEVER;
    expect(await late(found(tier, 1))).toEqual([null]);
    expect(troubles).toEqual([
      expect.stringContaining('redis://cache is unavailable (no answer within 1 s)'),
    ]);
    expect([tier.isResting, drops]).toEqual([true, 1]);
    const before = asked.length;
    expect(await found(tier, 1)).toEqual([null]);
    await stored(tier, 2);
    expect(asked).toHaveLength(before);
    expect(tier.counters).toMatchObject({ outages: 1, leftOut: 1 });
    clock.advance(10_000);
    answer = async () => {};
    expect(await found(tier, 1, 2)).toEqual([1, null]);
    expect(troubles.slice(1)).toEqual(['redis://cache answers again']);
  });

  it('reports a server that comes and goes at most once a minute', async () => {
    const tier = await open();
    for (let second = 0; second < 120; second += 11) {
      answer = NEVER;
      await late(tier.find([hash(1)]));
      clock.advance(10_000);
      answer = async () => {};
      await tier.find([hash(1)]);
    }
    expect(tier.counters.outages).toBe(11);
    expect(troubles.filter((line) => line.includes('is unavailable'))).toHaveLength(2);
  });

  it('turns all reads under way into misses at the time limit if the server stops answering', async () => {
    const tier = await open();
    const numbers = Array.from({ length: 40 }, (_, n) => n);
    await stored(tier, ...numbers);
    const there = await tier.find(numbers.map(hash));
    expect(there.size).toBe(40);
    answer = NEVER;
    const reads = numbers.map((n) => tier.read(hash(n), [new Uint8Array(BLOCK)]));
    expect(new Set(await late(Promise.all(reads)))).toEqual(new Set([false]));
    // Eight at once; the others were never requested.
    expect(asked.filter((what) => what === 'get')).toHaveLength(8);
    answer = async () => {};
    clock.advance(10_000);
    expect(await found(tier, ...numbers)).toEqual(numbers);
  });

  it('still reads from a server that is full and refuses blocks, and reports that once', async () => {
    const tier = await open();
    await stored(tier, 1);
    refusal = 'OOM command not allowed';
    await stored(tier, 2, 3);
    expect(await found(tier, 1, 2, 3)).toEqual([1, null, null]);
    expect(troubles).toEqual([expect.stringMatching(/does not take blocks \(OOM command not allowed\)/)]);
    expect(tier.counters).toMatchObject({ outages: 0, leftOut: 2 });
    refusal = null;
    clock.advance(10_000);
    await stored(tier, 4);
    expect(await found(tier, 4)).toEqual([4]);
  });

  it('opens although the server cannot be reached yet, but not if the server refuses', async () => {
    answer = async () => Promise.reject(new Error('connect ECONNREFUSED'));
    const tier = await open();
    expect(troubles).toEqual([expect.stringContaining('ECONNREFUSED')]);
    answer = async () => {};
    clock.advance(10_000);
    await stored(tier, 1);
    expect(await found(tier, 1)).toEqual([1]);
    answer = async () => Promise.reject(new ConfigError('WRONGPASS'));
    await expect(open()).rejects.toThrow('WRONGPASS');
  });

  it('gives up pending writes when the server does not answer in time', async () => {
    const tier = await open();
    answer = NEVER;
    for (let n = 0; n < 20; n++) tier.write(hash(n), [kv(n)]);
    await late(tier.flush());
    expect(tier.counters).toMatchObject({ written: 0, leftOut: 20, outages: 1 });
  });

  it('accepts only block hashes as keys', async () => {
    const tier = await open();
    for (const evil of ['*', '', `${hash(1)}x`, 'a b']) {
      tier.write(evil, [kv(1)]);
      expect((await tier.find([evil])).size).toBe(0);
    }
    await tier.flush();
    expect(values.size).toBe(0);
  });
});
