/** Sections common to all reports: checks, baseline, machine and settings. */
import { changesResults, type FieldGroup, fieldMeta, type RunKey, runKeys } from '../config/run.ts';
import { formatBytes, formatCount, formatMs, plural } from '../measure/format.ts';
import type { Baseline, MovedFigure } from '../measure/judging/baseline.ts';
import { SINGLE_RUN_NOISE } from '../measure/judging/baseline.ts';
import { type AnyReport, commandOf } from '../measure/schemas/report-kinds.ts';
import { ACCOUNTED, type Check } from './checks.ts';
import { type FactsPiece, left, right, type Section, type Tone, type Verdict } from './document.ts';
import { adapterName } from './verdict.ts';

export function checkVerdicts(checks: readonly Check[]): Verdict[] {
  const own = checks.filter(({ group }) => group !== 'assertions');
  const assertions = checks.filter(({ group }) => group === 'assertions');
  const failed = own.filter(({ passed }) => !passed);
  const verdicts: Verdict[] = failed.map(({ name }) => ({ tone: 'bad', text: `failed: ${name}` }));
  if (failed.length === 0) {
    const agreed = own.some(({ group }) => group === 'agreement');
    if (agreed) verdicts.push({ tone: 'good', text: 'all modes give the same tokens' });
    if (own.some(({ name }) => name === ACCOUNTED))
      verdicts.push({ tone: 'good', text: 'every block accounted for' });
  }
  if (assertions.length > 0) {
    const holding = assertions.filter(({ passed }) => passed).length;
    verdicts.push({
      tone: holding === assertions.length ? 'good' : 'bad',
      text: `${holding} of ${plural(assertions.length, 'assertion')} ${holding === 1 ? 'holds' : 'hold'}`,
    });
  }
  return verdicts;
}

export const checksSection = (checks: readonly Check[]): Section => ({
  title: 'Checks',
  intro: "The report's own checks, and the assertions given for it.",
  pieces: [
    {
      kind: 'table',
      title: 'Checks',
      quiet: true,
      columns: [left('check'), left('found'), { head: 'verdict' }],
      rows: checks.map(({ name, message, passed }) => [
        name,
        message,
        { text: passed ? '✓ passed' : '✗ failed', tone: passed ? 'good' : 'bad', strong: !passed },
      ]),
    },
  ],
});

const TONES: Partial<Record<MovedFigure['movement'], Tone>> = {
  better: 'good',
  worse: 'bad',
  changed: 'bad',
};

export function baselineSection(baseline: Baseline): Section {
  const moved = baseline.figures.filter(({ movement }) => movement in TONES);
  const rest = baseline.figures.filter(({ movement }) => !(movement in TONES));
  const table = (title: string, figures: readonly MovedFigure[], folded: boolean) =>
    ({
      kind: 'table',
      title,
      folded,
      columns: [left('figure'), ...right('before', 'now', 'change', '95% interval', '')],
      rows: figures.map((figure) => [
        `${figure.name} (${figure.unit})`,
        showFigure(figure.before, figure.unit),
        showFigure(figure.now, figure.unit),
        changeOf(figure),
        figure.low === null || figure.high === null
          ? ''
          : `${figure.low.toFixed(2)} to ${figure.high.toFixed(2)}`,
        { text: figure.movement, tone: TONES[figure.movement] ?? 'plain' },
      ]),
    }) as const;
  return {
    title: 'Compared with the baseline',
    intro: `${baseline.file}, created ${baseline.created.slice(0, 10)} by kvferry ${baseline.kvferry}. ${baselineSentence(baseline)}`,
    pieces: [
      ...baseline.differences.map((text) => ({ kind: 'text', text: `${text}.` }) as const),
      ...(moved.length > 0 ? [table('Changed figures', moved, false)] : []),
      ...(rest.length > 0 ? [table(`${plural(rest.length, 'unchanged figure')}`, rest, true)] : []),
    ],
  };
}

export const showFigure = (value: number, unit: string): string =>
  // A crossover need not be a whole number of tokens.
  ['ms', 'x'].includes(unit) ? formatMs(value) : formatCount(Math.round(value));

/** '+12%', '2.40x'. */
export function changeOf({ before, now, ratio }: MovedFigure): string {
  if (ratio === null) return now === before ? '' : `+${formatCount(now - before)}`;
  if (ratio >= 2 || ratio <= 0.5) return `${ratio.toFixed(2)}x`;
  const percent = (ratio - 1) * 100;
  return `${percent >= 0 ? '+' : ''}${percent.toFixed(Math.abs(percent) < 10 ? 1 : 0)}%`;
}

/** The comparison in sentences. */
export function baselineSentence({ figures, changed_counts, better, worse, same_machine }: Baseline): string {
  const counts = figures.filter(({ movement }) => movement === 'same' || movement === 'changed').length;
  const times = figures.filter(({ movement }) => movement === 'noise').length + better + worse;
  const exact =
    changed_counts === null
      ? 'No counts were compared'
      : changed_counts === 0
        ? `All ${counts} counts are the same`
        : `${changed_counts} of ${counts} counts changed`;
  if (times === 0) {
    return `${exact}; ${same_machine ? 'there are too few samples to compare times' : 'times from another machine are not compared'}.`;
  }
  const still = times - better - worse;
  const judged = `of ${plural(times, same_machine ? 'time' : 'ratio')}, ${better} better, ${worse} worse, ${still} within noise`;
  return `${exact}; ${judged} (better or worse: the 95% interval excludes no change, and the change exceeds the spread between rounds, or ${SINGLE_RUN_NOISE * 100}% with a single round).`;
}

const isSet = (value: unknown): boolean =>
  value !== null && value !== '' && !(Array.isArray(value) && value.length === 0);

const ENGINE_GROUPS = ['modes', 'machine', 'cluster'] as const;
const SERVING_GROUPS = [...ENGINE_GROUPS, 'fleet', 'store', 'routing', 'costs', 'sampling'] as const;

/** The groups of settings that each command reads. A report's config has every setting. */
export const SETTING_GROUPS: Readonly<Record<string, readonly FieldGroup[]>> = {
  run: [...SERVING_GROUPS, 'workload', 'audit'],
  bench: [...SERVING_GROUPS, 'bench', 'ways', 'slo', 'measuring', 'audit', 'endpoint'],
  replay: [...SERVING_GROUPS, 'trace', 'pacing', 'slo', 'measuring'],
  sweep: [...ENGINE_GROUPS, 'sweep', 'measuring'],
};

/** Settings of other commands are not shown: they have their defaults, and nothing read them. */
const isRead = (command: string, key: string): boolean =>
  !runKeys.includes(key as RunKey) ||
  (SETTING_GROUPS[command]?.includes(fieldMeta(key as RunKey).group) ?? true);

export function setUpSection(report: AnyReport, own: FactsPiece): Section {
  const { machine, config } = report;
  const shown = (value: unknown): string => {
    if (Array.isArray(value)) return value.join(', ');
    return typeof value === 'object' ? JSON.stringify(value) : String(value);
  };
  return {
    title: 'Machine and settings',
    pieces: [
      {
        kind: 'facts',
        title: 'Machine',
        facts: [
          ['adapter', adapterName(report)],
          ['processor', `${machine.cores} × ${machine.cpu}`],
          ['memory', formatBytes(machine.memory_bytes)],
          ['system', machine.os],
          ['Node', machine.node],
        ],
      },
      own,
      {
        kind: 'facts',
        title: 'Settings',
        folded: true,
        facts: Object.entries(config)
          .filter(([key, value]) => changesResults(key) && isRead(commandOf(report), key) && isSet(value))
          .map(([key, value]) => [key, shown(value)] as const),
      },
    ],
  };
}
