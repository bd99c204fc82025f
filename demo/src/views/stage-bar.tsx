/** Where a time to the first token went: one bar, its stages in the colours of who did the work. */
import { foldStages } from '../../../src/measure/stages.ts';
import { ms } from './format.ts';

export type StageTone = 'p' | 'd' | 'pull' | 'over' | 'other';

/** A stage's name says whose it is: names come from the cluster, and new ones must find a colour too. */
export function stageTone(name: string): StageTone {
  const words = name.toLowerCase();
  if (words.includes('pull') || words.includes('d_to_p')) return 'pull';
  if (words.includes('hand_over') || words.includes('p_to_d')) return 'over';
  if (words.includes('decode') || words.startsWith('d_')) return 'd';
  if (words.includes('prefill') || words.startsWith('p_')) return 'p';
  return 'other';
}

const WORDS: Readonly<Record<string, string>> = {
  pull: 'pull back D → P',
  prefill: 'prefill on P',
  hand_over: 'hand-over P → D',
  first_decode_step: 'first step on D',
};

export const stageInWords = (name: string): string => WORDS[name] ?? name.replaceAll('_', ' ');

/** Parts of a turn that took time, in the order in which they come. */
export const shownStages = (stagesMs: Readonly<Record<string, number>>): [string, number][] =>
  Object.entries(foldStages(stagesMs)).filter(([, took]) => took > 0);

export interface StageBarProps {
  stagesMs: Readonly<Record<string, number>>;
  /** Milliseconds of the full width. */
  scaleMs: number;
  /** Shown when there are no stages yet: a turn under way. */
  elapsedMs?: number;
}

export function StageBar({ stagesMs, scaleMs, elapsedMs }: StageBarProps) {
  const stages = shownStages(stagesMs);
  const share = (took: number) => `${(100 * took) / Math.max(scaleMs, 1e-6)}%`;
  const words = stages.map(([name, took]) => `${stageInWords(name)} ${ms(took)}`).join(', ');
  return (
    <div class="stage-bar" role="img" aria-label={words || 'under way'}>
      {stages.length === 0 && elapsedMs !== undefined && (
        <span class="stage-bar-part is-running" style={{ width: share(elapsedMs) }} />
      )}
      {stages.map(([name, took]) => (
        <span
          key={name}
          class="stage-bar-part"
          data-tone={stageTone(name)}
          style={{ width: share(took) }}
          title={`${stageInWords(name)}: ${ms(took)}`}
        />
      ))}
    </div>
  );
}

/** The stages' names beside their colours; with times where they are given. */
export function StageKey({ stagesMs }: { stagesMs: Readonly<Record<string, number>> }) {
  return (
    <ul class="stage-key">
      {shownStages(stagesMs).map(([name, took]) => (
        <li key={name} data-tone={stageTone(name)}>
          {stageInWords(name)} <span class="number">{ms(took)}</span>
        </li>
      ))}
    </ul>
  );
}
