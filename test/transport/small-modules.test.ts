/** Unit tests of the transport's small modules. */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ConfigError } from '../../src/errors.ts';
import { checksum, checksumInOneRow } from '../../src/transport/checksum.ts';
import { cutIntoChunks } from '../../src/transport/chunks.ts';
import { compatibilityHash } from '../../src/transport/compatibility.ts';
import { LINK_PRESETS, LinkQueue, parseLink } from '../../src/transport/link.ts';
import { mergeRuns } from '../../src/transport/merge-runs.ts';
import { SlotRing } from '../../src/transport/slab.ts';
import { coveredMs } from '../../src/transport/transfer.ts';
import { createTransport } from '../../src/transport/transport.ts';
import { TestClock } from '../clock.ts';
import { FACTORS, makeEngine, TestMemory } from './helpers.ts';

describe('coveredMs', () => {
  it('counts each moment once, in any order of intervals', () => {
    expect(coveredMs([])).toBe(0);
    const intervals = [
      [20, 30],
      [0, 5],
      [4, 8],
      [22, 25],
      [30, 31],
    ] as const;
    expect(coveredMs(intervals)).toBe(8 + 11);
    expect(coveredMs(intervals.toReversed())).toBe(19);
  });
});

describe('mergeRuns', () => {
  it('joins ids that ascend by one, and only those', () => {
    expect(mergeRuns([])).toEqual([]);
    expect(mergeRuns([4, 5, 6, 2, 8, 9])).toEqual([
      [4, 3],
      [2, 1],
      [8, 2],
    ]);
    expect(mergeRuns([3, 2, 1, 1])).toHaveLength(4);
  });

  it('keeps every id in order, and leaves no two runs that could be joined', () => {
    fc.assert(
      fc.property(fc.array(fc.nat(9)), (ids) => {
        const runs = mergeRuns(ids);
        expect(runs.flatMap(([start, length]) => Array.from({ length }, (_, i) => start + i))).toEqual(ids);
        for (const [i, [start]] of runs.entries()) {
          const before = runs[i - 1];
          if (before) expect(before[0] + before[1]).not.toBe(start);
        }
      }),
    );
  });
});

describe('checksum', () => {
  it('changes with every flipped bit, and does not depend on alignment', () => {
    fc.assert(
      fc.property(
        fc.uint8Array({ minLength: 1, maxLength: 60, size: 'max' }),
        fc.nat(),
        fc.nat(7),
        (bytes, at, bit) => {
          for (const sum of [checksum, checksumInOneRow]) {
            const shifted = new Uint8Array(bytes.length + 3).subarray(3);
            shifted.set(bytes);
            expect(sum(shifted)).toBe(sum(bytes));
            expect(sum(Buffer.from(shifted.buffer, 3))).toBe(sum(bytes));
            shifted[at % bytes.length]! ^= 1 << bit;
            expect(sum(shifted)).not.toBe(sum(bytes));
          }
        },
      ),
    );
  });
});

describe('cutIntoChunks', () => {
  it('covers every block once and in order, in chunks of one group within the limit', () => {
    const lists = fc.array(fc.array(fc.nat(99), { maxLength: 30, size: 'max' }), {
      minLength: 3,
      maxLength: 3,
    });
    fc.assert(
      fc.property(lists, fc.integer({ min: 1, max: 400 }), (blockIds, limit) => {
        const blockBytes = [8, 40, 100];
        const chunks = cutIntoChunks(blockIds, blockBytes, limit);
        for (const [group, ids] of blockIds.entries()) {
          const own = chunks.filter((chunk) => chunk.group === group);
          expect(own.flatMap((chunk) => chunk.blockIds)).toEqual(ids);
          let first = 0;
          for (const chunk of own) {
            expect(chunk.first).toBe(first);
            first += chunk.blockIds.length;
            expect(chunk.byteLength).toBe(chunk.blockIds.length * blockBytes[group]!);
            expect(chunk.blockIds.length === 1 || chunk.byteLength <= limit).toBe(true);
          }
        }
      }),
    );
  });
});

describe('the compatibility hash', () => {
  it('is a SHA-256 in hex that depends on every factor, but not on their order', () => {
    const hash = compatibilityHash(FACTORS);
    expect(hash).toMatch(/^[0-9a-f]{64}$/);
    const { model, ...rest } = FACTORS;
    expect(compatibilityHash({ ...rest, model })).toBe(hash);
    const others = Object.entries(FACTORS).map(([key, value]) =>
      compatibilityHash({ ...FACTORS, [key]: typeof value === 'number' ? value + 1 : `${value}x` }),
    );
    others.push(compatibilityHash({ ...FACTORS, blockLayoutVersion: 77 }));
    others.push(compatibilityHash({ ...FACTORS, connectorVersion: 77 }));
    expect(new Set([hash, ...others]).size).toBe(others.length + 1);
  });
});

describe('SlotRing', () => {
  it('reuses the slot released last first', async () => {
    const ring = new SlotRing(4);
    const { signal } = new AbortController();
    const next = () => ring.acquire(signal);
    expect([await next(), await next(), await next()]).toEqual([0, 1, 2]);
    ring.release(0);
    ring.release(2);
    expect([await next(), await next(), await next()]).toEqual([2, 0, 3]);
  });

  const live = () => new AbortController().signal;

  it('gives released slots to waiters in order, and skips those that aborted', async () => {
    const ring = new SlotRing(1);
    expect(await ring.acquire(live())).toBe(0);
    const gaveUp = new AbortController();
    const first = ring.acquire(gaveUp.signal);
    const got: string[] = [];
    const second = ring.acquire(live()).then((slot) => got.push(`second ${slot}`));
    const third = ring.acquire(live()).then((slot) => got.push(`third ${slot}`));
    gaveUp.abort();
    expect(await first).toBeNull();
    ring.release(0);
    await second;
    ring.release(0);
    await third;
    expect(got).toEqual(['second 0', 'third 0']);
    expect(ring.inUse).toBe(1);
    ring.release(0);
    ring.release(0);
    expect(ring.inUse).toBe(0);
    expect(await ring.acquire(gaveUp.signal)).toBeNull();
  });
});

describe('parseLink', () => {
  it('parses presets, rates and latencies', () => {
    for (const [name, spec] of Object.entries(LINK_PRESETS))
      expect(parseLink(name)).toEqual({ name, ...spec });
    const cases: [string, number, number][] = [
      ['10e6', 10e6, 0],
      ['10e6,1ms', 10e6, 1],
      ['1gb/s,50us', 1e9, 0.05],
      ['1.5 GB/s, 2s', 1.5e9, 2000],
      ['400gbit/s', 50e9, 0],
      ['1MiB/s,100ns', 2 ** 20, 1e-4],
      ['100gbe,1ms', 12.5e9, 1],
    ];
    for (const [text, bytesPerSecond, latencyMs] of cases) {
      const spec = parseLink(text);
      expect(spec.name).toBe(text);
      expect(spec.bytesPerSecond).toBeCloseTo(bytesPerSecond, 6);
      expect(spec.latencyMs).toBeCloseTo(latencyMs, 9);
    }
  });

  it('rejects anything else, and suggests the nearest preset for a typo', () => {
    expect(() => parseLink('nvlnk')).toThrow(
      /link 'nvlnk': .* did you mean nvlink\? use nvlink, .* such as 10e6,1ms\./,
    );
    expect(() => parseLink('10gb e')).toThrow(/did you mean 10gbe/);
    expect(() => parseLink('rdma-400')).toThrow(/did you mean rdma-400g/);
    expect(() => parseLink('none')).toThrow(/nor a rate; leave it out for none, or use nvlink/);
    expect(() => parseLink('carrier pigeon')).not.toThrow(/did you mean/);
    for (const text of [
      '',
      '0',
      '-5',
      '1e400',
      '10e6,5',
      '10e6,-1ms',
      '10e6,1e999s',
      '10e6,1ms,2',
      'constructor',
      '1e6,x',
    ]) {
      expect(() => parseLink(text)).toThrow(ConfigError);
    }
  });
});

describe('LinkQueue', () => {
  it('delivers first in, first out, each chunk after bytes / rate plus the latency', async () => {
    const clock = new TestClock(0);
    const link = new LinkQueue({ name: 'x', bytesPerSecond: 1000, latencyMs: 5 }, clock);
    const arrivals: string[] = [];
    const { signal } = new AbortController();
    const send = (name: string, bytes: number) =>
      link
        .deliver(bytes, signal)
        .then((delivery) =>
          arrivals.push(`${name} ${delivery?.startMs}-${delivery?.arrivalMs} @${clock.now()}`),
        );
    const both = [send('a', 100), send('b', 10)];
    for (let i = 0; i < 20; i++) {
      await new Promise(setImmediate);
      clock.skip();
    }
    await Promise.all(both);
    clock.advance(1000);
    const idle = clock.now();
    const third = send('c', 50);
    for (let i = 0; i < 20; i++) {
      await new Promise(setImmediate);
      clock.skip();
    }
    await third;
    expect(arrivals).toEqual(['a 0-105 @105', 'b 100-115 @115', `c ${idle}-${idle + 55} @${idle + 55}`]);
  });

  it('does not deliver early if timers fire early', async () => {
    let now = 0;
    const sleep = async (ms: number) => {
      now += ms * 0.75 + 1e-3;
    };
    const clock = { now: () => now, sleep };
    const link = new LinkQueue({ name: 'x', bytesPerSecond: 1000, latencyMs: 0 }, clock);
    await link.deliver(100, new AbortController().signal);
    expect(now).toBeGreaterThanOrEqual(100);
  });

  it('delivers nothing once aborted', async () => {
    const clock = new TestClock(0);
    const link = new LinkQueue({ name: 'x', bytesPerSecond: 1, latencyMs: 0 }, clock);
    const controller = new AbortController();
    const delivery = link.deliver(1000, controller.signal);
    await new Promise(setImmediate);
    controller.abort();
    expect(await delivery).toBeNull();
  });
});

describe('createTransport', () => {
  it('rejects invalid slots and chunkBytes, and blocks that are too large to stage', () => {
    for (const bad of [{ slots: 0 }, { chunkBytes: 0 }, { slots: 1.5 }, { chunkBytes: Number.NaN }]) {
      expect(() => makeEngine('x', bad)).toThrow(ConfigError);
    }
    const { transport } = makeEngine('x');
    const memory = Object.assign(new TestMemory(), { maxStagingBytes: 50 });
    const deps = { identity: transport.identity, memory, clock: new TestClock() };
    expect(() => createTransport(deps)).toThrow('one block has 96 bytes, but the engine stages 50 at most');
    const uneven = (maxStagingBytes: number) => ({
      ...deps,
      memory: Object.assign(new TestMemory({ blockBytes: [20, 96], numBlocks: [4, 4] }), { maxStagingBytes }),
    });
    expect(() => createTransport(uneven(95))).toThrow('one block has 96 bytes');
    createTransport(uneven(96)).close();
  });
});
