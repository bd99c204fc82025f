/** Reports what a simulated engine does as spans, with the code that does so for real engines. All times are modelled. */
import type { StoreInfo, TransferInfo } from '../../connector/types.ts';
import type { EngineActivity, ScheduledBatch } from '../../engine/types.ts';
import { EngineSpans } from '../../host/engine-spans.ts';
import { onHost, type SpanSink } from '../../measure/spans/spans.ts';

export class EngineTrace {
  readonly #engineId: string;
  readonly #spans: EngineSpans;
  readonly #report: SpanSink;

  constructor(engineId: string, report: SpanSink) {
    this.#engineId = engineId;
    this.#spans = new EngineSpans(engineId);
    this.#report = report;
  }

  submitted(requestId: string, startMs: number, endMs: number): void {
    this.#spans.opened(requestId);
    this.#spans.submitted(requestId, startMs, endMs);
    this.#flush();
  }

  transferred(info: TransferInfo): void {
    this.#spans.transferred(info);
    this.#flush();
  }

  stored(info: StoreInfo): void {
    this.#spans.stored(info);
    this.#flush();
  }

  readonly activity = (activity: EngineActivity): void => {
    this.#spans.activity(activity);
    this.#flush();
  };

  /** A step ran this batch from startMs to endMs. */
  ran({ requests }: ScheduledBatch, startMs: number, endMs: number): void {
    this.#spans.add({
      name: 'forward',
      ...onHost(this.#engineId),
      ...{ startMs, endMs, clock: 'modelled', requestId: null },
      requestIds: requests.map(({ requestId }) => requestId),
      args: { rows: requests.reduce((sum, { tokenIds }) => sum + tokenIds.length, 0) },
    });
    this.#flush();
  }

  closed(requestId: string): void {
    this.#spans.closed(requestId);
  }

  #flush(): void {
    for (const span of this.#spans.take()) this.#report(span);
  }
}
