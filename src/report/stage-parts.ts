/** Stages of the time to the first token as parts of a chart: summed by group, in the order in which a turn meets them. */
import { groupStages, STAGE_GROUPS, STAGES } from '../measure/stages.ts';

const LABELS: Readonly<Record<string, string>> = {
  router: 'router',
  queue: 'queues',
  lookup: 'cache lookup',
  handshake: 'handshake',
  pull: 'pull D→P',
  prefill: 'prefill',
  sampling: 'sampling',
  'hand-over': 'hand over P→D',
  decode: 'first step on D',
  other: 'other',
};

export const STAGE_PARTS = STAGE_GROUPS.map((group) => ({
  key: group,
  group,
  label: LABELS[group] ?? group,
}));

export const byGroup = (stagesMs: Readonly<Record<string, number>>): Record<string, number> =>
  groupStages(stagesMs);

/** Mean of each stage over the turns; a stage that a turn lacks counts as 0. */
export function meanStages(
  turns: readonly { stages_ms: Readonly<Record<string, number>> }[],
): Record<string, number> {
  const sums: Record<string, number> = {};
  for (const { stages_ms } of turns) {
    for (const [name, ms] of Object.entries(stages_ms)) sums[name] = (sums[name] ?? 0) + ms;
  }
  return Object.fromEntries(Object.entries(sums).map(([name, sum]) => [name, sum / turns.length]));
}

/** What one mode's mean time gained or lost against another's, part by part; parts that did not change are left out. */
export function stageSteps(
  from: Readonly<Record<string, number>>,
  to: Readonly<Record<string, number>>,
): { label: string; change: number }[] {
  const [before, after] = [byGroup(from), byGroup(to)];
  return STAGE_PARTS.map(({ key, label }) => ({
    label,
    change: (after[key] ?? 0) - (before[key] ?? 0),
  })).filter(({ change }) => Math.abs(change) >= 0.005);
}

/** What a stage's name means; null for one that is not known. */
export const stageMeaning = (name: string): string | null =>
  name in STAGES ? STAGES[name as keyof typeof STAGES].meaning : null;
