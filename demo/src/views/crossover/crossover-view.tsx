/** Times of pulling and of computing by length, the threshold as a handle, and the cost of a wrong threshold, shaded. */
import 'uplot/dist/uPlot.min.css';
import { useComputed, useSignal, useSignalEffect } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { outcomeOf } from '../../../../src/measure/outcome.ts';
import type { Session } from '../../session/types.ts';
import { AsTable } from '../as-table.tsx';
import { DataTable } from '../data-table.tsx';
import { ms } from '../format.ts';
import { clamp } from '../geometry.ts';
import { measured } from '../measured.ts';
import { leastFont, themeVersion } from '../palette.ts';
import { useFetched } from '../use-fetched.ts';
import type { CrossoverChart } from './crossover-chart.ts';
import {
  bestThreshold,
  type CrossoverPoint,
  crossover as crossing,
  regretMs,
  totalRegretMs,
} from './crossover-math.ts';

export function CrossoverView({ session: { state, actions } }: { session: Session }) {
  const holder = useRef<HTMLDivElement>(null);
  const chart = useRef<CrossoverChart | null>(null);
  /** The threshold while the handle is dragged; the session gets it on release. */
  const dragged = useSignal<number | null>(null);
  const threshold = useComputed(() => dragged.value ?? state.settings.value.threshold);
  const handleX = useSignal<number | null>(null);
  const crossover = state.crossover.value;
  const points = measured(crossover);
  const recorded = state.replay.value !== null;

  // The chart's library is not part of the page's first load.
  const fetched = useFetched(true, () => import('./crossover-chart.ts'));
  useEffect(() => {
    if (fetched === null || fetched === 'lost') return;
    const made = new fetched.CrossoverChart(holder.current!, (x) => {
      handleX.value = x;
    });
    chart.current = made;
    made.show(state.crossover.peek(), threshold.peek());
    return () => {
      made.destroy();
      chart.current = null;
    };
    // A chart cannot change its fonts, so a new font size makes a new chart.
  }, [fetched, leastFont.value]);
  useSignalEffect(() => {
    themeVersion.value;
    chart.current?.show(state.crossover.value, threshold.value);
  });

  const most = Math.max(...points.map(({ tokens }) => tokens), 64);
  const settle = (value: number) => {
    dragged.value = null;
    if (value !== state.settings.peek().threshold) void actions.configure({ threshold: value });
  };
  const step = state.settings.value.blockSize;
  const onKeyDown = (event: KeyboardEvent) => {
    const by = {
      ArrowLeft: -step,
      ArrowDown: -step,
      ArrowRight: step,
      ArrowUp: step,
      PageUp: 4 * step,
      PageDown: -4 * step,
    };
    const now = threshold.peek();
    const next =
      event.key === 'Home'
        ? 0
        : event.key === 'End'
          ? most + 1
          : event.key in by
            ? now + by[event.key as keyof typeof by]
            : null;
    if (next === null) return;
    event.preventDefault();
    settle(clamp(next, 0, most + 1));
  };
  const drag = (event: PointerEvent) => {
    const made = chart.current;
    if (!made || dragged.peek() === null) return;
    const x = event.clientX - holder.current!.getBoundingClientRect().x;
    dragged.value = Math.round(clamp(made.tokensAt(x), 0, most + 1));
  };

  return (
    <section class="panel crossover" aria-label="Where pulling begins to win">
      <div class="panel-head">
        <h2>Where pulling begins to win</h2>
        {crossover?.link && <span class="tag">over a modelled link</span>}
        {!recorded && (
          <button
            type="button"
            disabled={state.status.value.phase !== 'ready'}
            onClick={() => void actions.runCrossover()}
          >
            {crossover?.running
              ? `Measuring ${crossover.done} of ${crossover.total}`
              : crossover
                ? 'Measure again'
                : 'Measure'}
          </button>
        )}
      </div>
      <div class="crossover-chart">
        <div ref={holder} aria-hidden="true" />
        {handleX.value !== null && points.length > 0 && (
          <div
            class="threshold"
            role="slider"
            tabIndex={0}
            aria-label="Recompute threshold, tokens"
            aria-valuemin={0}
            aria-valuemax={most + 1}
            aria-valuenow={threshold.value}
            aria-valuetext={`${threshold.value} tokens`}
            style={{ left: `${handleX.value}px` }}
            onKeyDown={onKeyDown}
            onPointerDown={(event) => {
              event.currentTarget.setPointerCapture(event.pointerId);
              dragged.value = threshold.peek();
            }}
            onPointerMove={drag}
            onPointerUp={() => {
              if (dragged.peek() !== null) settle(dragged.peek()!);
            }}
            onPointerCancel={() => {
              dragged.value = null;
            }}
          >
            <span class="threshold-label">threshold {threshold.value}</span>
          </div>
        )}
        {points.length === 0 && !crossover?.running && (
          <p class="crossover-empty">
            {recorded
              ? 'Not measured in the recording so far.'
              : 'Measures both ways at increasing lengths; this takes about a minute. Then drag the threshold.'}
          </p>
        )}
      </div>
      {fetched === 'lost' && <p class="problem">The chart could not be loaded. Reload the page.</p>}
      {crossover?.error && <p class="problem">{crossover.error}</p>}
      <p class="crossover-verdict">{inWords(points, threshold.value)}</p>
      {!recorded && points.length > 0 && crossover?.link !== state.settings.value.link && (
        <p class="quiet-text">The link setting has changed since. Measure again.</p>
      )}
      <PointTable points={points} threshold={threshold.value} />
    </section>
  );
}

/** The chart in words. */
function inWords(points: readonly CrossoverPoint[], threshold: number): string {
  const at = crossing(points);
  if (at === null) return '';
  const even = points.every(
    ({ pullMs, recomputeMs }) => outcomeOf({ ratio: recomputeMs / pullMs }) === 'tie',
  );
  const wins = even
    ? 'No difference at any length measured.'
    : at === 'always'
      ? 'Pulling wins at every length measured.'
      : at === 'never'
        ? 'Pulling does not win, not even at the longest length measured.'
        : `Pulling wins from about ${Math.round(at)} tokens.`;
  const lost = totalRegretMs(points, threshold);
  const best = bestThreshold(points);
  const cost =
    lost < 0.05
      ? `A threshold of ${threshold} chooses the faster way at every point.`
      : `A threshold of ${threshold} loses ${ms(lost)} over these ${points.length} points; ${best} would lose ${ms(totalRegretMs(points, best ?? 0))}.`;
  return `${wins} ${cost}`;
}

function PointTable({ points, threshold }: { points: readonly CrossoverPoint[]; threshold: number }) {
  if (points.length === 0) return null;
  return (
    <AsTable summary="Chart as a table">
      <DataTable
        columns={['tokens', 'pull', 'compute again', 'lost by the threshold']}
        rows={points.map((point) => ({
          key: point.tokens,
          cells: [point.tokens, ms(point.pullMs), ms(point.recomputeMs), ms(regretMs(point, threshold))],
        }))}
      />
    </AsTable>
  );
}
