import { describe, expect, test } from 'vitest';
import { parseRunConfig } from '../../src/config/run.ts';
import { ConfigError } from '../../src/errors.ts';
import { clusterOptions } from '../../src/fleet/from-config.ts';
import { checkMemory, checkRoom, leastMemory, sharedMemory } from '../../src/fleet/memory-needs.ts';
import { countEngines, engineCore, engineStart, seatsOf } from '../../src/fleet/options.ts';
import { checkThreads, linkBetween, withoutSeat, withSeat } from '../../src/fleet/seats.ts';
import { presetArchitecture } from '../../src/model/architecture/presets.ts';
import { kvBlockBytes } from '../../src/model/types.ts';

const nano = presetArchitecture('nano');
const options = (settings: object) =>
  clusterOptions(parseRunConfig({ model: 'nano', ...settings }), nano, true);
const ofFile = (fleet: object) => options({ fleet });
const starts = (settings: object) => {
  const all = options(settings);
  return seatsOf(all).map((spec) => engineStart(all, spec, 1, 'bidirectional'));
};

test('a length beyond the model is refused by the name that the user wrote', () => {
  const config = parseRunConfig({ model: 'nano', maxModelLen: 1_000_000 });
  expect(() => clusterOptions(config, nano, true)).toThrow('--max-model-len is 1000000, but nano goes up to');
  const quoted = (key: string) => `'${key}'`;
  expect(() => clusterOptions(config, nano, true, quoted)).toThrow("'maxModelLen' is 1000000, but nano");
});

test('a fleet may have 1,024 engines of a role, but only 64 can be threads', () => {
  const seats = (prefill: number, decode: number) => seatsOf(options({ prefill, decode }));
  expect(seats(1024, 65)).toHaveLength(1089);
  expect(() => checkThreads(seats(1024, 1))).toThrow(ConfigError);
  expect(() => checkThreads(seats(1024, 1))).toThrow(
    '1024 engines would prefill, and each is a thread with a device: wanted at most 64; kvferry simulate takes up to 1024',
  );
  expect(() => checkThreads(seats(1, 65))).toThrow('65 engines would decode');
  checkThreads(seats(64, 64));
});

test('a fleet given by counts has P before D, each with its own port', () => {
  const all = starts({ prefill: 2, decode: 3 });
  expect(all.map(({ core }) => [core.engineId, core.port])).toEqual([
    ['prefill-0', 5600],
    ['prefill-1', 5601],
    ['decode-0', 5602],
    ['decode-1', 5603],
    ['decode-2', 5604],
  ]);
  expect(countEngines(options({ prefill: 2, decode: 3 }))).toBe('2 P and 3 D');
  expect(countEngines(options({}))).toBe('P and D');
});

const file = {
  rolesets: [
    { name: 'big', prefill: [{ blocks: 64, prefixCaching: false }, {}], decode: 1, node: 'n1' },
    { prefill: 1, decode: [{ node: 'n1' }], both: 2, node: 'n2', promptTokens: { min: 10, max: 20 } },
  ],
  sameNode: 'nvlink',
  acrossNodes: '100gbe',
  links: [{ between: ['decode-0', 'prefill-2'], link: '10e6,1ms' }],
};

test('a fleet file sets rolesets, the pools of single engines, and links between pairs', () => {
  const all = ofFile(file);
  const specs = seatsOf(all);
  expect(specs.map(({ name, role, combined, roleset }) => [name, role, combined, roleset])).toEqual([
    ['prefill-0', 'prefill', false, 'big'],
    ['prefill-1', 'prefill', false, 'big'],
    ['prefill-2', 'prefill', false, 'roleset-1'],
    ['decode-0', 'decode', false, 'big'],
    ['decode-1', 'decode', false, 'roleset-1'],
    ['both-0', 'decode', true, 'roleset-1'],
    ['both-1', 'decode', true, 'roleset-1'],
  ]);
  expect(countEngines(all)).toBe('3 P, 2 D and 2 that do both');
  expect(all.fleet!.rolesets).toEqual([
    { name: 'big', min: 0, max: null },
    { name: 'roleset-1', min: 10, max: 20 },
  ]);
  const caches = specs.map((spec) => engineCore(all, spec, spec.name, 'bidirectional').cache);
  expect(caches[0]).toMatchObject({ numBlocks: 64, enablePrefixCaching: false });
  expect(caches[1]).toMatchObject({ numBlocks: all.prefill.numBlocks, enablePrefixCaching: true });
  const at = (name: string) =>
    specs.flatMap((other) => {
      const link = linkBetween(all.fleet!, name, other.name);
      return link && other.name !== name ? [[other.index, link.name]] : [];
    });
  // On n1: prefill-0, prefill-1, decode-0 and decode-1 (ports 0, 1, 3, 4); on n2 the rest.
  expect(at('decode-0').toSorted()).toEqual([
    [0, 'nvlink'],
    [1, 'nvlink'],
    [2, '10e6,1ms'],
    [4, 'nvlink'],
    [5, '100gbe'],
    [6, '100gbe'],
  ]);
  expect(at('both-0').toSorted()).toEqual([
    [0, '100gbe'],
    [1, '100gbe'],
    [2, 'nvlink'],
    [3, '100gbe'],
    [4, '100gbe'],
    [6, 'nvlink'],
  ]);
});

test("an engine that takes a vacated seat gets that seat's settings; a new one gets its roleset's", () => {
  const fleet = ofFile(file).fleet!;
  const seatIn = (of: typeof fleet, name: string) => of.seats.find((seat) => seat.name === name)!;
  const big = { role: 'prefill', roleset: 'big' } as const;
  const left = withoutSeat(withoutSeat(fleet, 'prefill-0'), 'decode-0');
  expect(left.links.every(({ between }) => !between.includes('decode-0'))).toBe(true);
  const back = withSeat(left, { name: 'decode-0', role: 'decode', roleset: 'big' });
  expect(linkBetween(back, 'decode-0', 'prefill-2')?.name).toBe('10e6,1ms');
  expect(linkBetween(back, 'decode-0', 'both-0')?.name).toBe('100gbe');
  const both = withSeat(back, { name: 'prefill-0', ...big });
  expect(seatIn(both, 'prefill-0')).toMatchObject({
    node: 'n1',
    own: { numBlocks: 64, enablePrefixCaching: false },
  });
  for (const one of fleet.seats)
    for (const other of fleet.seats.filter((seat) => seat !== one))
      expect(linkBetween(both, one.name, other.name)).toEqual(linkBetween(fleet, one.name, other.name));
  const joined = withSeat(both, { name: 'prefill-3', ...big });
  expect(seatIn(joined, 'prefill-3')).toMatchObject({ node: 'n1', own: {} });
  expect(linkBetween(joined, 'prefill-3', 'decode-0')?.name).toBe('nvlink');
  // The same name in another roleset is another seat.
  const elsewhere = withSeat(withoutSeat(fleet, 'prefill-0'), {
    name: 'prefill-0',
    role: 'prefill',
    roleset: 'roleset-1',
  });
  expect(seatIn(elsewhere, 'prefill-0')).toMatchObject({ node: 'n2', own: {} });
});

test('a configuration with a fleet parses to itself', () => {
  const once = parseRunConfig({ model: 'nano', fleet: JSON.stringify(file) });
  expect(parseRunConfig({ ...once })).toEqual(once);
});

test('the memory requirement counts every engine, each with its own pool', () => {
  const needs = leastMemory(ofFile(file), nano);
  const two = leastMemory(options({}), nano);
  expect(needs.weights).toBe((two.weights / 2) * 7);
  const { prefill, decode } = ofFile(file);
  const perBlock = two.kv / (options({}).prefill.numBlocks + options({}).decode.numBlocks);
  const ofRole = { prefill: prefill.numBlocks, decode: decode.numBlocks };
  const all = seatsOf(ofFile(file)).reduce((sum, { own, role }) => sum + (own.numBlocks ?? ofRole[role]), 0);
  expect(needs.kv).toBe(perBlock * all);
  expect(() => checkMemory(options({ prefill: 2, decode: 2 }), nano, two.total)).toThrow(
    /^nano does not fit: 2 P and 2 D need .*: use fewer engines \(--prefill, --decode\), /,
  );
});

describe('an invalid fleet', () => {
  test.each([
    [{ rolesets: [{ prefill: 2 }] }, /roleset roleset-0 has 2 P and no D: give it at least one D/],
    [{ rolesets: [{ decode: 1, both: 1 }] }, /roleset roleset-0 has 1 D and no P/],
    [{ rolesets: [{ prefill: 1, decode: 1 }, { name: 'x' }] }, /roleset x has no engines/],
    [
      {
        rolesets: [
          { name: 'x', both: 1 },
          { name: 'x', both: 1 },
        ],
      },
      /two rolesets are called x/,
    ],
    [
      { rolesets: [{ both: 1, promptTokens: { min: 9, max: 8 } }] },
      /takes prompts of 9 to 8 tokens, an empty range/,
    ],
    [
      {
        rolesets: [{ prefill: 1, decode: 1 }],
        links: [{ between: ['prefill-0', 'decode-3'], link: 'pcie' }],
      },
      /there is no engine decode-3 \(did you mean decode-0\?\): there are prefill-0, decode-0/,
    ],
    [
      { rolesets: [{ prefill: 1, decode: 1 }], links: [{ between: ['decode-0', 'decode-0'], link: 'pcie' }] },
      /between decode-0 and itself/,
    ],
    [
      {
        rolesets: [{ prefill: 1, decode: 1 }],
        links: [
          { between: ['prefill-0', 'decode-0'], link: 'pcie' },
          { between: ['decode-0', 'prefill-0'], link: 'nvlink' },
        ],
      },
      /given twice/,
    ],
    [{ rolesets: [{ prefill: 1, decode: 1 }], sameNode: '10gbx' }, /link '10gbx'/],
    [{ rolesets: [] }, /rolesets in 'fleet' is \[\]: wanted at least one roleset/],
    [{ rolesets: [{ prefil: 1 }] }, /unknown field 'prefil' in rolesets.0.*did you mean prefill\?/],
    [
      { rolesets: [{ prefill: [{ block: 1 }], decode: 1 }] },
      /unknown field 'block' in rolesets.0.prefill.0.*did you mean blocks\?/,
    ],
    [{ rolesets: [{ prefill: -1 }] }, /rolesets.0.prefill in 'fleet' is -1: wanted a number of engines/],
    [{ rolesets: [{ prefill: [{ blocks: 1 }] }] }, /rolesets.0.prefill.0.blocks in 'fleet' is 1: wanted/],
    [
      { rolesets: [{ both: 1 }], links: [{ between: ['both-0'], link: 'x' }] },
      /links.0.between.*wanted two engines/,
    ],
  ])('is refused with one sentence: %j', (fleet, expected) => {
    const make = () => ofFile(fleet);
    expect(make).toThrow(ConfigError);
    expect(make).toThrow(expected);
  });

  test('is refused if it has both rolesets and counts, a count of 0, or no object', () => {
    const fleet = { rolesets: [{ prefill: 1, decode: 1 }] };
    expect(() => options({ fleet, decode: 2 })).toThrow("'fleet' and 'decode' are both given");
    expect(() => options({ prefill: 0 })).toThrow(
      "'prefill' is 0: wanted a whole number of engines from 1 to 1024",
    );
    expect(() => options({ fleet: 'two' })).toThrow(/'fleet' is 'two': wanted an object with rolesets/);
  });
});

describe("D's default pool", () => {
  const blocks = (settings: object) => options(settings).decode.numBlocks;
  const bytesPerBlock = kvBlockBytes(nano, 16, 'f32');

  test('fits two of the longest requests, and the holds of all running ones if those holds are small', () => {
    const small = { maxModelLen: 64, maxNumSeqs: 2, maxNumBatchedTokens: 64, kvDtype: 'f32' };
    expect(blocks(small)).toBe(2 * 4 + 1 + 2 * 4);
    expect(options(small).prefill.numBlocks).toBe(2 * 4 + 1);
    expect(blocks({ ...small, dBlocks: 20 })).toBe(20);
  });

  test('reserves at most 64 MiB for holds across all D', () => {
    const many = { maxNumSeqs: 100_000, maxNumBatchedTokens: 100_000, kvDtype: 'f32' };
    const forTwo = options(many).prefill.numBlocks;
    expect((blocks(many) - forTwo) * bytesPerBlock).toBe(2 ** 26);
    expect((blocks({ ...many, decode: 4 }) - forTwo) * bytesPerBlock).toBe(2 ** 24);
  });
});

test('an engine that joins needs memory for the pool that the file gives its seat', () => {
  const all = ofFile({ rolesets: [{ name: 'a', prefill: 1, decode: [{}, { blocks: 60_000 }] }] });
  const joining = (name: string) =>
    withSeat(withoutSeat(all.fleet!, name), { name, role: 'decode', roleset: 'a' }).seats.filter(
      (seat) => seat.name === name,
    );
  const free = leastMemory({ ...all, fleet: { ...all.fleet!, seats: joining('decode-2') } }, nano).total;
  expect(() => checkRoom(all, joining('decode-2'), nano, free)).not.toThrow();
  expect(() => checkRoom(all, joining('decode-1'), nano, free)).toThrow('1 more D of nano do not fit');
});

test("the store's memory counts too, but not again for an engine that joins", () => {
  const stored = { ...options({}), store: { bytes: 2 ** 30, eviction: 'lru' } as const };
  const { total } = leastMemory(options({}), nano);
  expect(leastMemory(stored, nano).total).toBe(total + 2 ** 30);
  expect(() => checkMemory(stored, nano, total + 2 ** 30)).not.toThrow();
  expect(() => checkMemory(stored, nano, total + 2 ** 30 - 1)).toThrow(
    /nano does not fit: P and D need .*, the store 1 GiB\), .* a smaller --store, fewer KV blocks/,
  );
  const [seat] = stored.fleet?.seats ?? seatsOf(stored);
  expect(() => checkRoom(stored, [seat!], nano, total)).not.toThrow();
});

test('weights are shared if a copy fits alongside everything else and more than one engine needs them', () => {
  const two = options({});
  const { total } = leastMemory(two, nano);
  const { byteLength } = sharedMemory(two, nano, null)!.memory;
  // All but the last norm.
  expect(byteLength).toBeGreaterThan(0.99 * (leastMemory(two, nano).weights / 2));
  expect(sharedMemory(two, nano, total + byteLength)).not.toBeNull();
  expect(sharedMemory(two, nano, total + byteLength - 1)).toBeNull();
  expect(sharedMemory(ofFile({ rolesets: [{ both: 1 }] }), nano, null)).toBeNull();
});

test('D has no driver threads if the model is small and no compared mode prefills on D', () => {
  const drivers = (settings: object) => starts(settings).map(({ driverThreads }) => driverThreads);
  const apart = [true, false];
  expect(drivers({ mode: ['unidirectional', 'bidirectional'] })).toEqual(apart);
  expect(drivers({ mode: ['bidirectional'], prefill: 2, decode: 2 })).toEqual([true, true, false, false]);
  expect(drivers({ mode: ['monolithic', 'bidirectional'] })).toEqual([null, null]);
  expect(drivers({ mode: ['bidirectional', 'decode-local'] })).toEqual([null, null]);
  expect(drivers({ mode: ['monolithic'], decodeDriverThreads: 'off' })).toEqual(apart);
  expect(drivers({ mode: ['bidirectional'], decodeDriverThreads: 'on' })).toEqual([null, null]);
  const config = parseRunConfig({ model: 'nano', mode: ['bidirectional'] });
  expect(clusterOptions(config, nano, false).decodeDriverThreads).toBe(true);
  const large = presetArchitecture('smollm2-135m');
  expect(clusterOptions(config, large, true).decodeDriverThreads).toBe(true);
});
