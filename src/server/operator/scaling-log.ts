/** Records engines joining and leaving, and the autoscaler's decisions, for GET /fleet and the log. */
import type { EngineCluster } from '../../fleet/cluster.ts';
import type { ClusterNotice } from '../../fleet/notices.ts';
import { howItLeft, whatIsLost } from '../../fleet/scale-report.ts';
import { type AutoscaleDecision, reasonOf } from '../../router/autoscale/loop.ts';
import type { AutoscaleChoice } from '../../router/autoscale/registry.ts';
import type { ServerLog } from '../http/log.ts';

const MOST_EVENTS = 32;

export class ScalingLog {
  readonly #log: ServerLog;
  readonly #choice: AutoscaleChoice | null;
  readonly #events: object[] = [];
  #last: AutoscaleDecision | null = null;

  constructor(cluster: Pick<EngineCluster, 'onNotice'>, choice: AutoscaleChoice | null, log: ServerLog) {
    this.#log = log;
    this.#choice = choice;
    cluster.onNotice((notice) => this.#hear(notice));
  }

  /** `acts`: the decision is being carried out; only then is it logged. */
  decided(decision: AutoscaleDecision, acts: boolean): void {
    this.#last = decision;
    if (!acts) return;
    const why = reasonOf(decision);
    this.#log.note(why);
    this.#keep({ event: 'decided', why });
  }

  failed(message: string): void {
    this.#log.error(`--autoscale: ${message}`);
    this.#keep({ event: 'failed', why: message });
  }

  /** The autoscaler's settings and last decision; null: no autoscaler, the fleet changes only on request. */
  get autoscale(): object | null {
    if (!this.#choice) return null;
    const { name, bounds } = this.#choice;
    const last = this.#last && { at: isoTime(this.#last.atMs), ...this.#last.roles };
    return { name, bounds, last };
  }

  /** Oldest first. */
  get events(): readonly object[] {
    return this.#events;
  }

  #hear(notice: ClusterNotice): void {
    if (notice.kind === 'joined') {
      const { name, engineId, startMs } = notice;
      this.#log.note(`${engineId} joined the fleet, ready in ${Math.round(startMs)} ms`);
      this.#keep({ event: 'joined', name, engine_id: engineId, start_ms: Math.round(startMs) });
    } else if (notice.kind === 'left') {
      const { name, engineId, ms, migrated, lost, ended } = notice;
      const lostKv = whatIsLost(lost);
      const what = [
        ...(migrated.holds > 0 ? [`other engines took over ${migrated.tokens} tokens that it held`] : []),
        ...(lostKv === null ? [] : [lostKv]),
      ];
      this.#log.note([`${engineId} left the fleet ${howItLeft(notice)}`, ...what].join('; '));
      const report = { drain_ms: Math.round(ms), migrated, lost, ended };
      this.#keep({ event: 'left', name, engine_id: engineId, ...report });
    }
  }

  #keep(event: object): void {
    this.#events.push({ at: new Date().toISOString(), ...event });
    if (this.#events.length > MOST_EVENTS) this.#events.shift();
  }
}

const isoTime = (atMs: number): string => new Date(atMs).toISOString();
