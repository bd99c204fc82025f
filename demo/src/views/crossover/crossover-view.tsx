/** Times of pulling and of computing by length, the threshold as a handle, and the cost of a wrong threshold, shaded. */
import 'uplot/dist/uPlot.min.css';
import { effect, type ReadonlySignal, type Signal, useComputed, useSignal } from '@preact/signals';
import type { RefObject } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import { outcomeOf } from '../../../../src/measure/outcome.ts';
import type { Crossover, Session } from '../../session/types.ts';
import { AsTable } from '../as-table.tsx';
import { Button } from '../button.tsx';
import { DataTable } from '../data-table.tsx';
import { ms } from '../format.ts';
import { clamp } from '../geometry.ts';
import { measured } from '../measured.ts';
import { leastFont, themeVersion } from '../palette.ts';
import { plainly } from '../plain-words.ts';
import { useFetched } from '../use-fetched.ts';
import { WithoutStore } from '../without-store.tsx';
import type { CrossoverChart } from './crossover-chart.ts';
import {
  bestThreshold,
  type CrossoverPoint,
  crossover as crossing,
  passInWords,
  regretMs,
  totalRegretMs,
} from './crossover-math.ts';

export function CrossoverView({ session: { state, actions } }: { session: Session }) {
  const holder = useRef<HTMLDivElement>(null);
  /** The threshold while the handle is dragged; the session gets it on release. */
  const dragged = useSignal<number | null>(null);
  const threshold = useComputed(() => dragged.value ?? state.settings.value.threshold);
  const handleX = useSignal<number | null>(null);
  const { chart, lost } = useChart(holder, state.crossover, threshold, handleX);
  const crossover = state.crossover.value;
  const points = measured(crossover);
  const recorded = state.replay.value !== null;
  const most = Math.max(...points.map(({ tokens }) => tokens), 64) + 1;
  const words = inWords(points, threshold.value);

  return (
    <section class="panel crossover" aria-label="Where pulling begins to win">
      <div class="panel-head">
        <h2>Where pulling begins to win</h2>
        {crossover?.link && <span class="tag">over a modelled link</span>}
        {!recorded && <WithoutStore state={state} />}
        {!recorded && (
          <Button off={state.status.value.phase !== 'ready'} onClick={() => void actions.runCrossover()}>
            {crossover?.running ? passInWords(crossover) : crossover ? 'Measure again' : 'Measure'}
          </Button>
        )}
      </div>
      <div class="crossover-chart">
        <div ref={holder} aria-hidden="true" />
        {handleX.value !== null && points.length > 0 && (
          <Handle
            threshold={threshold}
            dragged={dragged}
            x={handleX.value}
            most={most}
            step={state.settings.value.blockSize}
            tokensAt={(clientX) =>
              chart.current?.tokensAt(clientX - holder.current!.getBoundingClientRect().x)
            }
            settle={(value) => {
              if (value !== state.settings.peek().threshold) void actions.configure({ threshold: value });
            }}
          />
        )}
        {points.length === 0 && !crossover?.running && (
          <p class="crossover-empty">
            {recorded
              ? 'Not measured in the recording so far.'
              : 'Measures both ways at increasing lengths; this takes about a minute. Then drag the threshold.'}
          </p>
        )}
      </div>
      {lost && <p class="problem">The chart could not be loaded. Reload the page.</p>}
      {crossover?.error && <p class="problem">{plainly(crossover.error)}</p>}
      <p class="crossover-verdict">{words}</p>
      {/* Heard when all is measured, and when the threshold has moved. */}
      <p class="visually-hidden" aria-live="polite">
        {crossover?.running || dragged.value !== null ? '' : words}
      </p>
      {!recorded && points.length > 0 && crossover?.link !== state.settings.value.link && (
        <p class="quiet-text">The link setting has changed since. Measure again.</p>
      )}
      <PointTable points={points} threshold={threshold.value} />
    </section>
  );
}

/** The chart in `holder`; its library is not part of the page's first load. */
function useChart(
  holder: RefObject<HTMLDivElement | null>,
  crossover: ReadonlySignal<Crossover | null>,
  threshold: ReadonlySignal<number>,
  handleX: Signal<number | null>,
): { chart: RefObject<CrossoverChart | null>; lost: boolean } {
  const chart = useRef<CrossoverChart | null>(null);
  const fetched = useFetched(true, () => import('./crossover-chart.ts'));
  useEffect(() => {
    if (fetched === null || fetched === 'lost') return;
    const made = new fetched.CrossoverChart(holder.current!, (x) => {
      handleX.value = x;
    });
    chart.current = made;
    const stop = effect(() => {
      themeVersion.value;
      made.show(crossover.value, threshold.value);
    });
    return () => {
      stop();
      made.destroy();
      chart.current = null;
    };
    // A chart cannot change its fonts, so a new font size makes a new chart.
  }, [fetched, leastFont.value]);
  return { chart, lost: fetched === 'lost' };
}

interface HandleProps {
  threshold: ReadonlySignal<number>;
  dragged: Signal<number | null>;
  /** Its place, in pixels from the chart's left edge. */
  x: number;
  most: number;
  /** Tokens that an arrow key moves it by. */
  step: number;
  /** Tokens at a pointer's place; undefined: there is no chart. */
  tokensAt: (clientX: number) => number | undefined;
  settle: (threshold: number) => void;
}

/** The threshold on the chart, moved by the pointer or the keyboard. */
function Handle({ threshold, dragged, x, most, step, tokensAt, settle }: HandleProps) {
  const by: Readonly<Record<string, number>> = {
    ArrowLeft: -step,
    ArrowDown: -step,
    ArrowRight: step,
    ArrowUp: step,
    PageUp: 4 * step,
    PageDown: -4 * step,
    Home: Number.NEGATIVE_INFINITY,
    End: Number.POSITIVE_INFINITY,
  };
  return (
    <div
      class="threshold"
      role="slider"
      tabIndex={0}
      aria-label="Recompute threshold, tokens"
      aria-valuemin={0}
      aria-valuemax={most}
      aria-valuenow={threshold.value}
      aria-valuetext={`${threshold.value} tokens`}
      style={{ left: `${x}px` }}
      onKeyDown={(event) => {
        const move = by[event.key];
        if (move === undefined) return;
        event.preventDefault();
        const next = clamp(threshold.peek() + move, 0, most);
        dragged.value = null;
        settle(next);
      }}
      onPointerDown={(event) => {
        event.currentTarget.setPointerCapture(event.pointerId);
        dragged.value = threshold.peek();
      }}
      onPointerMove={(event) => {
        if (dragged.peek() === null) return;
        const tokens = tokensAt(event.clientX);
        if (tokens !== undefined) dragged.value = Math.round(clamp(tokens, 0, most));
      }}
      onPointerUp={() => {
        const released = dragged.peek();
        dragged.value = null;
        if (released !== null) settle(released);
      }}
      onPointerCancel={() => {
        dragged.value = null;
      }}
    >
      <span class="threshold-label">threshold {threshold.value}</span>
    </div>
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
