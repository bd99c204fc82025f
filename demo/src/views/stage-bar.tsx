/** Where a time to the first token went: one bar, its stages in the colours of who did the work; what is modelled is hatched. */
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
  const words = stages.map((stage) => `${stageInWords(stage.name)} ${ms(stage.ms)}`).join(', ');
  return (
    <div class="stage-bar" role="img" aria-label={words || 'under way'}>
      {stages.length === 0 && elapsedMs !== undefined && (
        <span class="stage-bar-part is-running" style={{ width: share(elapsedMs) }} />
      )}
      {stages.map(({ name, ms: took, modelled }) => (
        <span
          key={name}
          class="stage-bar-part"
          data-tone={stageTone(name)}
          data-modelled={modelled}
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
      {shownStages(stagesMs).map(({ name, modelled }) => (
        <li key={name} data-tone={stageTone(name)} data-modelled={modelled}>
          {stageInWords(name)}
        </li>
      ))}
    </ul>
  );
}
