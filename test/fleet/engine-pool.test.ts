import { expect, test } from 'vitest';
import { EngineDeadError } from '../../src/errors.ts';
import type { EnginePool } from '../../src/fleet/engine-pool.ts';
import type { ThreadEngine } from '../../src/fleet/thread-engine.ts';
import { startThreads } from '../../src/fleet/thread-pool.ts';
import type { ClusterOptions } from '../../src/fleet/types.ts';
import { loadCheckpoint } from '../../src/model/load.ts';
import { systemClock } from '../../src/platform/clock.ts';
import { connectorDefaults } from '../connector/scripted.ts';
import { directory, oddConfig, oddTensors } from '../model/checkpoint.ts';
import { platformOf } from './fake-threads.ts';

const engines = (count: number) => ({ count, numBlocks: 8, enablePrefixCaching: true });
const options = {
  model: 'nano',
  prefill: engines(1),
  decode: engines(2),
  mode: 'bidirectional',
  connector: connectorDefaults,
} as ClusterOptions;
/** Engines without shared weights. */
const alone = { checkpoint: null, shared: null };
const ids = (pool: EnginePool) => pool.all.map(({ engineId }) => engineId);

test('each seat has its own name and port; a replacement engine keeps the port and gets a new id', async () => {
  const { platform, threads } = platformOf();
  const pool = await startThreads(platform, systemClock, options, alone);
  expect(ids(pool)).toEqual(['prefill-0', 'decode-0', 'decode-1']);
  expect(pool.all.map(({ address }) => address.port)).toEqual([5600, 5601, 5602]);
  threads[1]!.end();
  const prepared: string[] = [];
  const prepare = async ({ engineId }: ThreadEngine) => void prepared.push(engineId);
  expect(await pool.replaceDead('bidirectional', prepare)).toBe(1);
  expect(prepared).toEqual(['decode-0.2']);
  expect(ids(pool)).toEqual(['prefill-0', 'decode-0.2', 'decode-1']);
  expect(pool.all[1]!.address).toEqual({ engineId: 'decode-0.2', host: 'localhost', port: 5601 });
  await pool.shutdown();
  expect(threads.every(({ running }) => !running)).toBe(true);
});

test('a replacement that cannot be connected or prepared is ended, and its seat is filled on the next try', async () => {
  let refuses = false;
  const { platform, threads } = platformOf((name) => {
    if (refuses && name === 'prefill-0') throw new Error('the peer is just ending');
  });
  const pool = await startThreads(platform, systemClock, options, alone);
  threads[1]!.end();
  refuses = true;
  await expect(pool.replaceDead('bidirectional', async () => {})).rejects.toThrow('the peer is just ending');
  expect(threads.at(-1)).toMatchObject({ name: 'decode-0.2', running: false });
  refuses = false;
  const broken = async () => {
    throw new Error('no policy');
  };
  await expect(pool.replaceDead('bidirectional', broken)).rejects.toThrow('no policy');
  expect(threads.at(-1)!.running).toBe(false);
  expect(await pool.replaceDead('bidirectional', async () => {})).toBe(1);
  await pool.shutdown();
  expect(threads.every(({ running }) => !running)).toBe(true);
});

test('an engine that cannot be started keeps no other from being replaced', async () => {
  const { platform, threads } = platformOf(undefined, (name) => {
    if (name === 'prefill-0.2') throw new Error('too little memory');
  });
  const pool = await startThreads(platform, systemClock, options, alone);
  for (const thread of threads) thread.end();
  await expect(pool.replaceDead('bidirectional', async () => {})).rejects.toThrow('too little memory');
  expect(ids(pool)).toEqual(['prefill-0', 'decode-0.2', 'decode-1.2']);
  await pool.shutdown();
  expect(threads.every(({ running }) => !running)).toBe(true);
});

test('an engine whose thread says that it is ending is skipped by each(), and does not keep others from joining', async () => {
  let ending = false;
  const { platform, threads } = platformOf((name) => {
    if (ending && name === 'prefill-0')
      throw new EngineDeadError('the engine is not running: start it again');
  });
  const pool = await startThreads(platform, systemClock, options, alone);
  const answers = await pool.each(async ({ engineId }) => {
    if (engineId === 'decode-1') throw new EngineDeadError('the engine is not running: start it again');
    return engineId;
  });
  expect(answers).toEqual(['prefill-0', 'decode-0']);
  threads[1]!.end();
  ending = true;
  expect(await pool.replaceDead('bidirectional', async () => {})).toBe(1);
  await pool.shutdown();
});

test('each() skips engines that have ended or end during the call, and passes on other errors', async () => {
  const { platform, threads } = platformOf();
  const pool = await startThreads(platform, systemClock, options, alone);
  threads[2]!.end();
  const asked: string[] = [];
  const answers = await pool.each(async (engine) => {
    asked.push(engine.engineId);
    if (engine.engineId !== 'decode-0') return engine.engineId;
    threads[1]!.end();
    throw engine.ended!;
  });
  expect(asked).toEqual(['prefill-0', 'decode-0']);
  expect(answers).toEqual(['prefill-0']);
  await expect(
    pool.each(async () => {
      throw new Error('another failure');
    }),
  ).rejects.toThrow('another failure');
  await pool.shutdown();
});

test('engines that start together share the memory for weights; if one fails, that memory is abandoned', async () => {
  const memory = new SharedArrayBuffer(16);
  let abandoned = 0;
  const shared = { memory, abandon: () => void abandoned++ };
  const given: (number | undefined)[] = [];
  const { platform, threads } = platformOf(undefined, (_, { sharedWeights }) =>
    given.push(sharedWeights?.byteLength),
  );
  const pool = await startThreads(platform, systemClock, options, { ...alone, shared });
  threads[1]!.end();
  await pool.replaceDead('bidirectional', async () => {});
  // A replacement builds its own weights.
  expect(given).toEqual([16, 16, 16, undefined]);
  expect(abandoned).toBe(0);
  await pool.shutdown();
  const failing = platformOf(undefined, (name) => {
    if (name === 'decode-0') throw new Error('no device');
  });
  await expect(startThreads(failing.platform, systemClock, options, { ...alone, shared })).rejects.toThrow(
    'no device',
  );
  expect(abandoned).toBe(1);
  expect(failing.threads.every(({ running }) => !running)).toBe(true);
});

test("each engine start reads the checkpoint's tensors again and fails if one has gone missing", async () => {
  const told: (readonly string[])[] = [];
  const { platform, threads } = platformOf(undefined, (_, { checkpoint }) => {
    told.push([...checkpoint!.tensors.keys()]);
  });
  let tensors = oddTensors();
  const opened = { ...platform, openModel: async () => directory(oddConfig, tensors) };
  const checkpoint = await loadCheckpoint('./odd', await opened.openModel());
  const odd = { ...options, model: './odd' };
  const pool = await startThreads(opened, systemClock, odd, { ...alone, checkpoint });
  const { 'model.norm.weight': _, ...fewer } = tensors;
  expect(told).toEqual(Array.from({ length: 3 }, () => expect.arrayContaining(Object.keys(tensors))));
  threads[1]!.end();
  tensors = fewer;
  await expect(pool.replaceDead('bidirectional', async () => {})).rejects.toThrow(
    'no tensor model.norm.weight',
  );
  expect(told).toHaveLength(3);
  await pool.shutdown();
});
