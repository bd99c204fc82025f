/** Sending the blocks of a sequence as they become available, and the spans of a chunk's stages. No channel. */
import { describe, expect, it } from 'vitest';
import type { RawSpan } from '../../src/measure/spans/spans.ts';
import { cutIntoChunks } from '../../src/transport/chunks.ts';
import type { ChunkMessage, HolderTimes } from '../../src/transport/messages.ts';
import { sendStream } from '../../src/transport/send-stream.ts';
import { emitHolderStages } from '../../src/transport/stage-spans.ts';
import type { BlockStream } from '../../src/transport/types.ts';

type Ready = Awaited<ReturnType<BlockStream['ready']>>;

/** Two groups, one block per chunk. `answers`: the stream's, in turn. `asked`: the block indexes that it was asked for. */
async function run(
  blockIndexes: number[][],
  answers: Ready[],
  send: (ids: readonly number[]) => void = () => {},
) {
  const asked: number[] = [];
  const sent: string[] = [];
  const stream: BlockStream = {
    ready: async (index) => {
      asked.push(index);
      return answers.shift()!;
    },
    finished() {},
  };
  const end = await sendStream({
    ...{ blockIndexes, stream, signal: new AbortController().signal },
    cut: (blockIds) => cutIntoChunks(blockIds, [8, 8], 8),
    send: async ({ chunks, taken }) => {
      for (const chunk of chunks) {
        send(chunk.blockIds);
        taken!(chunk);
        sent.push(`${chunk.group}: ${chunk.blockIds} as ${chunk.first}`);
      }
    },
  }).catch((error: unknown) => String(error));
  return { asked, sent, end };
}

const ready = (blockIds: number[][], numBlocks: number, revoked = new AbortController().signal): Ready => ({
  ...{ blockIds, numBlocks, revoked },
});

describe('a stream', () => {
  it('waits for the first block that is missing in any group, and sends those that are available', async () => {
    const table = [
      [11, 12, 13, 14],
      [21, 22, 23, 24],
    ];
    const { asked, sent, end } = await run(
      [
        [1, 2, 3],
        [2, 3],
      ],
      [ready(table, 2), ready(table, 3), ready(table, 4)],
    );
    expect(asked).toEqual([1, 2, 3]);
    expect(sent).toEqual(['0: 12 as 0', '0: 13 as 1', '1: 23 as 0', '0: 14 as 2', '1: 24 as 1']);
    expect(end).toBeNull();
  });

  it.each([
    ['the rest is no longer wanted', null],
    ['there will be no further blocks', { outcome: 'declined' as const, message: 'gone' }],
  ])('ends when %s', async (_, answer) => {
    expect(await run([[0, 1]], [ready([[11, 12]], 1), answer])).toEqual({
      asked: [0, 1],
      sent: ['0: 11 as 0'],
      end: answer,
    });
  });

  it('fails instead of sending a null block, which marks a block that the window has passed', async () => {
    const { sent, end } = await run([[0], [0]], [ready([[11], [0]], 1)]);
    expect(end).toMatchObject({ outcome: 'failed' });
    expect(sent).toEqual([]);
  });

  it('reads the rest from recomputed blocks if blocks were revoked, else fails as the device does', async () => {
    const revoked = new AbortController();
    const failing = (id: number) => (ids: readonly number[]) => {
      if (ids.includes(id)) throw new Error('the device failed');
    };
    const given = await run([[0, 1]], [ready([[11, 12]], 2, revoked.signal), ready([[31, 32]], 2)], (ids) => {
      if (!ids.includes(12)) return;
      revoked.abort();
      throw new Error('given back');
    });
    expect(given).toEqual({ asked: [0, 1], sent: ['0: 11 as 0', '0: 32 as 1'], end: null });
    expect((await run([[0, 1]], [ready([[11, 12]], 2)], failing(12))).end).toBe('Error: the device failed');
  });
});

it("a chunk's stages at the holder are consecutive spans, and a modelled link is a span of its own", () => {
  const stages = (times: Partial<HolderTimes>) => {
    const spans: RawSpan[] = [];
    const all = {
      waitStart: 1,
      gatherStart: 2,
      submitted: 3,
      readbackStart: 3,
      mapped: 5,
      slabInStart: 6,
      slabInEnd: 7,
    };
    const message: ChunkMessage = {
      ...{ kind: 'chunk', epoch: 1, transferId: 't', index: 4, slot: 0, byteLength: 96, group: 0, first: 0 },
      ...{ count: 1, checksum: null, descriptors: 1, times: { ...all, link: null, ...times } },
    };
    emitHolderStages((span) => spans.push(span), message, { holderId: 'd', readerId: 'p', requestId: 'r' });
    return spans;
  };
  const brief = (spans: readonly RawSpan[]) =>
    spans.map(({ name, startMs, endMs }) => `${name} ${startMs}-${endMs}`);
  const plain = stages({});
  expect(brief(plain)).toEqual(['wait 1-2', 'gather 2-3', 'readback 3-5', 'slab in 6-7']);
  for (const span of plain)
    expect(span).toMatchObject({
      ...{ engineId: 'd', lane: 'host', clock: 'host', requestId: 'r', way: { from: 'd', to: 'p' } },
      args: { transferId: 't', chunk: 4, bytes: 96 },
    });
  const queued = stages({ readbackStart: 4, link: { start: 8, arrival: 9 } });
  expect(brief(queued)).toEqual([
    'wait 1-2',
    'gather 2-3',
    'wait 3-4',
    'readback 4-5',
    'slab in 6-7',
    'link 8-9',
  ]);
  expect(queued.at(-1)).toMatchObject({
    engineId: 'p',
    lane: 'link',
    clock: 'modelled',
    way: { from: 'd', to: 'p' },
  });
});
