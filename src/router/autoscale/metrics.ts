/** The metrics that rules may use: one number per engine. */
import type { EngineView } from '../plan.ts';

export interface ScaleMetric {
  /** With its unit, for tables. */
  label: string;
  /** null: the engine has reported nothing. `maxNumSeqs`: requests that an engine runs at once. */
  of(view: EngineView, maxNumSeqs: number): number | null;
}

export const METRIC_NAMES = ['waiting', 'running', 'in-flight', 'batch', 'kv'] as const;
export type MetricName = (typeof METRIC_NAMES)[number];

export const METRICS: Readonly<Record<MetricName, ScaleMetric>> = {
  waiting: {
    label: 'waiting',
    of: ({ signals }) => signals && signals.waiting + signals.waitingForRemote,
  },
  running: { label: 'running', of: ({ signals }) => signals?.running ?? null },
  'in-flight': { label: 'in flight', of: ({ inFlight }) => inFlight },
  batch: {
    label: '% of batch',
    of: ({ signals }, maxNumSeqs) => signals && (100 * signals.running) / maxNumSeqs,
  },
  kv: {
    label: '% of KV',
    of: ({ signals }) => signals && 100 * (1 - signals.freeBlocks / Math.max(1, signals.numBlocks)),
  },
};
