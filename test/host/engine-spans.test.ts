import { expect, it } from 'vitest';
import { EngineSpans } from '../../src/host/engine-spans.ts';
import type { RawSpan } from '../../src/measure/spans/spans.ts';
import { emptyResult } from '../../src/transport/transfer.ts';

const claim = { held: { numTokens: 16, digest: '' }, prompt: { numTokens: 16, digest: '' } };
const remote = { engineId: 'prefill-0', host: 'h', port: 1, requestId: 'p', claim, blocksExpiryTime: null };

function transferred(spans: EngineSpans, requestId: string, endedMs: number): void {
  const result = emptyResult('failed', 'lost', 5);
  const times = { startedMs: endedMs - 5, checkedMs: endedMs - 4, endedMs };
  spans.transferred({ requestId, remote, numTokens: 16, ...times, result });
}

/** The queue span of a request that starts to run after waiting since `startMs`. */
function queued(spans: EngineSpans, requestId: string, startMs: number): RawSpan | undefined {
  const requestIds = [requestId];
  spans.activity({ name: 'queue', startMs, endMs: 100, step: 1, requestIds, blocks: null });
  return spans.take().at(-1);
}

it('the first queue span after a KV load starts when the load ended', () => {
  const spans = new EngineSpans('decode-0');
  spans.opened('r');
  transferred(spans, 'r', 40);
  expect(queued(spans, 'r', 60)).toMatchObject({ name: 'queue', startMs: 40, endMs: 100 });
  expect(queued(spans, 'r', 60)).toMatchObject({ startMs: 60 });
});

it('closing a request forgets its KV load, whether the load ended before or after', () => {
  const spans = new EngineSpans('decode-0');
  spans.opened('r');
  transferred(spans, 'r', 40);
  spans.closed('r');
  expect(queued(spans, 'r', 60)).toMatchObject({ startMs: 60 });
  transferred(spans, 'r', 50);
  expect(queued(spans, 'r', 60)).toMatchObject({ startMs: 60 });
});
