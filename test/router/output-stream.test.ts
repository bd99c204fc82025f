/** A request's outputs on their way to the reader, whichever of the two is first. */
import { expect, it } from 'vitest';
import type { RequestOutput } from '../../src/engine/types.ts';
import { OutputStream } from '../../src/router/output-stream.ts';
import { settled } from '../clock.ts';

const output = (last = false): RequestOutput => ({
  ...{ requestId: 'a', tokens: [], prompt: null, times: { arrivalMs: 0, queuedMs: 0, scheduledMs: 0 } },
  finish: last ? { reason: 'length', error: null, kvTransferParams: null, numPreemptions: 0 } : null,
});

/** Reads the stream in the background: the times of its outputs, then how it ended. */
function read(stream: OutputStream) {
  const seen: (number | string)[] = [];
  const reading = async () => {
    for await (const { atMs } of stream) seen.push(atMs);
    seen.push('end');
  };
  void reading().catch((error: Error) => seen.push(error.message));
  return seen;
}

it('starts empty', () => {
  const { transfers, loads } = new OutputStream('a');
  expect([transfers, loads]).toEqual([[], []]);
});

it('delivers to a reader that waits and to one that comes later', async () => {
  const stream = new OutputStream('a');
  stream.push(output(), 1);
  const seen = read(stream);
  await settled();
  expect(seen).toEqual([1]);
  stream.push(output(), 2);
  stream.push(output(true), 3);
  await settled();
  expect(seen).toEqual([1, 2, 3, 'end']);
});

it('delivers what came before a failure, which a waiting reader gets at once', async () => {
  const stream = new OutputStream('a');
  stream.push(output(), 1);
  stream.fail(new Error('gone'));
  const [seen, waiting] = [read(stream), new OutputStream('b')];
  const seenByWaiting = read(waiting);
  await settled();
  waiting.fail(new Error('gone'));
  await settled();
  expect([seen, seenByWaiting]).toEqual([[1, 'gone'], ['gone']]);
});

it('has one end: a failure after the last output or after a failure changes nothing', async () => {
  const [ended, failed] = [new OutputStream('a'), new OutputStream('b')];
  ended.push(output(true), 1);
  ended.fail(new Error('too late'));
  failed.fail(new Error('first'));
  failed.fail(new Error('second'));
  const seen = [read(ended), read(failed)];
  await settled();
  expect(seen).toEqual([[1, 'end'], ['first']]);
});

it('drops what was not read when it is interrupted', async () => {
  const [stream, waiting] = [new OutputStream('a'), new OutputStream('b')];
  const seenByWaiting = read(waiting);
  await settled();
  for (const one of [stream, waiting]) {
    one.push(output(), 1);
    one.interrupt(new Error('stop'));
    one.fail(new Error('too late'));
  }
  const seen = read(stream);
  await settled();
  expect([seen, seenByWaiting]).toEqual([['stop'], ['stop']]);
});
