import { expect, it } from 'vitest';
import { EngineSpans } from '../../src/host/engine-spans.ts';
import type { RawSpan } from '../../src/measure/spans.ts';
import { emptyResult } from '../../src/transport/transfer.ts';

const claim = { held: { numTokens: 16, digest: '' }, prompt: { numTokens: 16, digest: '' } };
const remote = { engineId: 'prefill-0', host: 'h', port: 1, requestId: 'p', claim, blocksExpiryTime: null };

function transferred(spans: EngineSpans, requestId: string, endedMs: number): void {
  const result = emptyResult('failed', 'lost', 5);
  const times = { startedMs: endedMs - 5, checkedMs: endedMs - 4, endedMs };
  spans.transferred({ requestId, remote, numTokens: 16, ...times, result });
}

/** A request of this id begins to run, having waited since `startMs`. */
function queued(spans: EngineSpans, requestId: string, startMs: number): RawSpan | undefined {
  const requestIds = [requestId];
  spans.activity({ name: 'queue', startMs, endMs: 100, step: 1, requestIds, blocks: null });
  return spans.take().at(-1);
}

it('a request waits from its load on, once', () => {
  const spans = new EngineSpans('decode-0');
  spans.opened('r');
  transferred(spans, 'r', 40);
  expect(queued(spans, 'r', 60)).toMatchObject({ name: 'queue', startMs: 40, endMs: 100 });
  expect(queued(spans, 'r', 60)).toMatchObject({ startMs: 60 });
});

it('nothing is kept of a load that ended before its request ran, or after it was given up', () => {
  const spans = new EngineSpans('decode-0');
  spans.opened('r');
  transferred(spans, 'r', 40);
  spans.closed('r');
  expect(queued(spans, 'r', 60)).toMatchObject({ startMs: 60 });
  transferred(spans, 'r', 50);
  expect(queued(spans, 'r', 60)).toMatchObject({ startMs: 60 });
});
