import { afterEach, expect, it } from 'vitest';
import { EngineDeadError } from '../../src/errors.ts';
import type { GpuDevice } from '../../src/gpu/device.ts';
import { GpuKvMemory } from '../../src/gpu/kv-memory.ts';
import { systemClock } from '../../src/platform/clock.ts';
import { DEFAULT_CHUNK_BYTES } from '../../src/transport/chunks.ts';
import { openTestDevice } from './adapter.ts';

const blockBytes = 256;
let gpu: GpuDevice;

async function openMemory(pieces = 1): Promise<GpuKvMemory> {
  gpu = await openTestDevice();
  const sizes = { numBlocks: 40, blockBytes, pieces, stagingBytes: 8 * blockBytes };
  return new GpuKvMemory({ gpu, ...sizes, kvDtype: 'f16', clock: systemClock });
}

afterEach(() => gpu.destroy());

const content = (ids: readonly number[], salt = 0) =>
  Uint8Array.from(
    { length: ids.length * blockBytes },
    (_, i) => (ids[Math.floor(i / blockBytes)]! * 7 + i + salt) % 251,
  );

async function write(memory: GpuKvMemory, ids: readonly number[], salt = 0): Promise<void> {
  const staged = await memory.stage(ids.length * blockBytes);
  staged.bytes.set(content(ids, salt));
  await staged.commit(0, ids);
}

it('gather returns staged blocks in the requested order', async () => {
  const memory = await openMemory();
  await write(memory, [3], 9);
  await write(memory, [5, 6, 7, 30, 2]);
  expect(await memory.readBlock(30)).toEqual(content([5, 6, 7, 30, 2]).slice(3 * blockBytes, 4 * blockBytes));
  const gathered = await memory.gather(0, [2, 7, 5]);
  const all = content([5, 6, 7, 30, 2]);
  const at = (i: number) => [...all.slice(i * blockBytes, (i + 1) * blockBytes)];
  expect([...gathered.bytes]).toEqual([...at(4), ...at(2), ...at(0)]);
  expect(gathered.waitMs).toBeGreaterThanOrEqual(0);
  expect(gathered.readbackMs).toBeGreaterThanOrEqual(0);
  gathered.release();
  expect(await memory.readBlock(3)).toEqual(content([3], 9));
});

it('clear zeroes a block only before its first use', async () => {
  const memory = await openMemory();
  await write(memory, [3, 4, 8]);
  memory.clear([3, 8]);
  for (const id of [3, 8]) expect((await memory.readBlock(id)).every((byte) => byte === 0)).toBe(true);
  expect(await memory.readBlock(4)).toEqual(content([3, 4, 8]).slice(blockBytes, 2 * blockBytes));
  await write(memory, [3], 9);
  memory.clear([3, 4]);
  expect(await memory.readBlock(3)).toEqual(content([3], 9));
  expect((await memory.readBlock(4)).every((byte) => byte === 0)).toBe(true);
});

it('on a software adapter only the pages of used blocks are resident', async () => {
  gpu = await openTestDevice();
  const mib = 2 ** 20;
  const before = process.memoryUsage.rss();
  const memory = new GpuKvMemory({
    gpu,
    numBlocks: 120,
    blockBytes: mib,
    kvDtype: 'f16',
    clock: systemClock,
  });
  const staged = await memory.stage(mib);
  staged.bytes.fill(7);
  await staged.commit(0, [60]);
  expect((await memory.readBlock(60)).every((byte) => byte === 7)).toBe(true);
  if (gpu.report.software) expect(process.memoryUsage.rss() - before).toBeLessThan(60 * mib);
});

it('with one piece per layer, gather copies each piece from its place and returns the same bytes', async () => {
  const memory = await openMemory(4);
  await write(memory, [5, 6, 7, 30, 2]);
  const gathered = await memory.gather(0, [2, 5, 6]);
  expect(gathered.descriptors).toBe(3 * 4);
  const all = content([5, 6, 7, 30, 2]);
  const at = (i: number) => [...all.slice(i * blockBytes, (i + 1) * blockBytes)];
  expect([...gathered.bytes]).toEqual([...at(4), ...at(0), ...at(1)]);
  gathered.release();
  // Piece 3 of block 7 as the kernels address it: [layer][block].
  expect(memory.placeOfLayer(3, 4)).toEqual({ layer: 3 * 40, layers: 1 });
  const { device } = gpu;
  const bytes = blockBytes / 4;
  const usage = GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST;
  const out = device.createBuffer({ size: bytes, usage });
  const encoder = device.createCommandEncoder();
  encoder.copyBufferToBuffer(memory.buffer, (3 * 40 + 7) * bytes, out, 0, bytes);
  device.queue.submit([encoder.finish()]);
  await out.mapAsync(GPUMapMode.READ);
  expect([...new Uint8Array(out.getMappedRange())]).toEqual(at(2).slice(3 * bytes));
});

it.each([1, 4])(
  'readBlock returns a whole block even if the first group does not fill it, in %i piece(s)',
  async (pieces) => {
    gpu = await openTestDevice();
    const memory = new GpuKvMemory({
      ...{ gpu, numBlocks: 40, blockBytes, pieces, kvDtype: 'f16', clock: systemClock },
      groupBytes: [192, blockBytes],
    });
    const staged = await memory.stage(blockBytes);
    staged.bytes.set(content([5]));
    await staged.commit(1, [5]);
    expect(await memory.readBlock(5)).toEqual(content([5]));
  },
);

it.each([1, 4])(
  'copies of a group with fewer layers than a block move only those layers, in %i piece(s)',
  async (pieces) => {
    gpu = await openTestDevice();
    const used = 192;
    const memory = new GpuKvMemory({
      ...{ gpu, numBlocks: 40, blockBytes, pieces, kvDtype: 'f16', clock: systemClock },
      groupBytes: [blockBytes, used],
    });
    const ids = [5, 6, 30];
    await write(memory, ids);
    const staged = await memory.stage(ids.length * used);
    staged.bytes.fill(7);
    await staged.commit(1, ids);
    const gathered = await memory.gather(1, [30, 5]);
    expect([...gathered.bytes]).toEqual(new Array(2 * used).fill(7));
    gathered.release();
    // The bytes behind its layers are unchanged.
    const whole = content(ids);
    for (const [i, id] of ids.entries())
      expect([...(await memory.readBlock(id)).slice(used)]).toEqual([
        ...whole.slice(i * blockBytes + used, (i + 1) * blockBytes),
      ]);
    const groupBytes = [blockBytes + 64];
    expect(
      () =>
        new GpuKvMemory({ gpu, numBlocks: 40, blockBytes, groupBytes, kvDtype: 'f16', clock: systemClock }),
    ).toThrow(/groups use 320 bytes of blocks of 256/);
  },
);

it('gather copies neighbouring blocks with one descriptor', async () => {
  const memory = await openMemory();
  const gathered = await memory.gather(0, [2, 5, 6]);
  expect(gathered.descriptors).toBe(2);
  gathered.release();
});

it('more gathers and stages than staging buffers are served, also while earlier ones are held', async () => {
  const memory = await openMemory();
  await Promise.all(Array.from({ length: 12 }, (_, i) => write(memory, [i + 1], i)));
  const reads = Array.from({ length: 12 }, async (_, i) => {
    const gathered = await memory.gather(0, [i + 1]);
    await systemClock.sleep(1);
    const copy = gathered.bytes.slice();
    gathered.release();
    gathered.release();
    return copy;
  });
  (await Promise.all(reads)).forEach((bytes, i) => {
    expect(bytes).toEqual(content([i + 1], i));
  });
});

it('a discarded stage frees its buffer', async () => {
  const memory = await openMemory();
  for (let i = 0; i < 9; i++) (await memory.stage(blockBytes)).discard();
  await write(memory, [1]);
  expect(await memory.readBlock(1)).toEqual(content([1]));
});

it('poison fills blocks with NaN', async () => {
  const memory = await openMemory();
  memory.poison(0, [4]);
  const halves = new Uint16Array((await memory.readBlock(4)).buffer);
  expect([...halves].every((bits) => (bits & 0x7c00) === 0x7c00 && (bits & 0x3ff) !== 0)).toBe(true);
});

it('gather refuses unknown blocks and the null block', async () => {
  const memory = await openMemory();
  await expect(memory.gather(0, [40])).rejects.toThrow('there is no block 40');
  await expect(memory.gather(0, [0])).rejects.toThrow('there is no block 0');
});

it('a memory with too many blocks is refused with the number that fits', async () => {
  gpu = await openTestDevice();
  const limit = gpu.device.limits.maxStorageBufferBindingSize;
  const numBlocks = Math.floor(limit / 65536) + 7;
  const create = () =>
    new GpuKvMemory({ gpu, numBlocks, blockBytes: 65536, kvDtype: 'f16', clock: systemClock });
  expect(create).toThrow(`use ${numBlocks - 7} blocks or fewer`);
});

it('when the device is destroyed, pending and later operations reject with EngineDeadError', async () => {
  const memory = await openMemory();
  const held = await memory.gather(0, [1]);
  const pending = Array.from({ length: 10 }, () => memory.gather(0, [1, 2]));
  const staged = await memory.stage(blockBytes);
  const commit = staged.commit(0, [1]);
  gpu.destroy();
  const results = await Promise.allSettled([...pending, commit]);
  // More than there are staging buffers: the last cannot have begun.
  expect(results[9]!.status).toBe('rejected');
  for (const result of results) {
    if (result.status === 'rejected') expect(result.reason).toBeInstanceOf(EngineDeadError);
  }
  held.release();
  await expect(memory.gather(0, [1])).rejects.toThrow(EngineDeadError);
  await expect(memory.stage(blockBytes)).rejects.toThrow(EngineDeadError);
});

it('each staging buffer holds one transfer chunk, or the whole pool if that is smaller', async () => {
  gpu = await openTestDevice();
  const memoryOf = (numBlocks: number, bytes: number) =>
    new GpuKvMemory({ gpu, numBlocks, blockBytes: bytes, kvDtype: 'f16', clock: systemClock });
  expect(memoryOf(64, 2 ** 16).stagingBytes).toBe(8 * DEFAULT_CHUNK_BYTES);
  expect(memoryOf(4, 2 ** 16).stagingBytes).toBe(8 * 4 * 2 ** 16);
  expect(memoryOf(4, 2 ** 21).maxStagingBytes).toBe(2 ** 21);
});
