/** A time to the first token as one bar of stages, coloured by the engine that did the work; modelled stages are hatched. */
import { ms } from '../format.ts';
import { shownStages, stageInWords, stageTone } from './stage-names.ts';

export interface StageBarProps {
  stagesMs: Readonly<Record<string, number>>;
  /** The full width, milliseconds. */
  scaleMs: number;
  /** Shown while there are no stages yet: the time of a running turn. */
  elapsedMs?: number;
}

export function StageBar({ stagesMs, scaleMs, elapsedMs }: StageBarProps) {
  const stages = shownStages(stagesMs);
  const share = (took: number) => `${(100 * took) / Math.max(scaleMs, 1e-6)}%`;
  const words = stages.map((stage) => `${stageInWords(stage.name)} ${ms(stage.ms)}`).join(', ');
  return (
    <div class="stage-bar" role="img" aria-label={words || 'running'}>
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

/** The stages' names with their colours. */
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
