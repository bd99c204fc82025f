/** Where a time to the first token went: one bar, its stages in the colours of who did the work. */
import { ms } from './format.ts';
import { shownStages, stageInWords, stageTone } from './stage-names.ts';

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

/** The stages' names beside their colours. */
export function StageKey({ stagesMs }: { stagesMs: Readonly<Record<string, number>> }) {
  return (
    <ul class="stage-key">
      {shownStages(stagesMs).map(([name]) => (
        <li key={name} data-tone={stageTone(name)}>
          {stageInWords(name)}
        </li>
      ))}
    </ul>
  );
}
