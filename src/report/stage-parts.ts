/** Stages of the time to the first token as parts of a chart: summed by group, in the order in which a turn meets them. */

const STAGE_GROUPS = [
  'router',
  'queue',
  'lookup',
  'handshake',
  'pull',
  'prefill',
  'sampling',
  'hand-over',
  'decode',
  'other',
] as const;
const PREFIXES: readonly (readonly [string, (typeof STAGE_GROUPS)[number]])[] = [
  ['pull', 'pull'],
  ['hand_over', 'hand-over'],
  ['prefill', 'prefill'],
  ['first_decode', 'decode'],
  ['router', 'router'],
  ['queue', 'queue'],
  ['schedule', 'queue'],
  ['lookup', 'lookup'],
  ['sampling', 'sampling'],
];
const groupStages = (stagesMs: Readonly<Record<string, number>>): Record<string, number> => {
  const sums: Record<string, number> = {};
  for (const [name, ms] of Object.entries(stagesMs)) {
    const g = PREFIXES.find(([p]) => name.startsWith(p))?.[1] ?? 'other';
    sums[g] = (sums[g] ?? 0) + ms;
  }
  return sums;
};

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
