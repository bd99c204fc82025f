/** Stages of TTFT as chart parts: summed by group, in the order in which a turn passes them. */
import { groupStages, STAGE_GROUPS, STAGES } from '../measure/spans/stages.ts';
import { sum } from '../sum.ts';
import type { WaterfallPiece } from './document.ts';

const LABELS: Readonly<Record<string, string>> = {
  router: 'router',
  queue: 'queues',
  lookup: 'cache lookup',
  handshake: 'handshake',
  load: 'load from the store',
  pull: 'pull D→P',
  prefill: 'prefill',
  sampling: 'sampling',
  handover: 'handover P→D',
  decode: 'first step on D',
  other: 'other',
};

export const STAGE_PARTS = STAGE_GROUPS.map((group) => ({
  key: group,
  group,
  label: LABELS[group] ?? group,
}));

/** What pulling gained or lost in mean TTFT by part; unchanged parts are omitted. */
export function pullingWaterfall(
  without: Readonly<Record<string, number>>,
  pulling: Readonly<Record<string, number>>,
): WaterfallPiece {
  const [before, after] = [groupStages(without), groupStages(pulling)];
  return {
    kind: 'waterfall',
    title: 'From unidirectional to bidirectional: savings and costs',
    unit: 'ms',
    from: { name: 'unidirectional', value: sum(Object.values(without)) },
    to: { name: 'bidirectional', value: sum(Object.values(pulling)) },
    steps: STAGE_PARTS.map(({ key, label }) => ({ label, change: after[key] - before[key] })).filter(
      ({ change }) => Math.abs(change) >= 0.005,
    ),
  };
}

/** The meaning of a stage; null if unknown. */
export const stageMeaning = (name: string): string | null =>
  Object.hasOwn(STAGES, name) ? STAGES[name as keyof typeof STAGES].meaning : null;
