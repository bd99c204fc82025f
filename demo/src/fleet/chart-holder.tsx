/** A line chart with the key to its lines. */
import { type ReadonlySignal, useSignalEffect } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import 'uplot/dist/uPlot.min.css';
import { leastFont, themeVersion } from '../views/palette.ts';
import { type Chart, LineChart } from './line-chart.ts';

const labelsOf = ({ lines, simulated }: Chart): string =>
  `${simulated} ${lines.map(({ label }) => label).join()}`;

export function ChartHolder({ name, chart }: { name: string; chart: ReadonlySignal<Chart> }) {
  const holder = useRef<HTMLDivElement>(null);
  const made = useRef<LineChart | null>(null);
  const drawn = useRef('');
  const labels = labelsOf(chart.value);
  useEffect(() => {
    made.current = new LineChart(holder.current!, name, chart.peek());
    drawn.current = labelsOf(chart.peek());
    return () => {
      made.current?.destroy();
      made.current = null;
    };
    // A chart cannot change its fonts or lines, so a change of these makes a new chart.
  }, [leastFont.value, labels, name]);
  useSignalEffect(() => {
    themeVersion.value;
    // With other lines, a new chart is about to be made.
    if (labelsOf(chart.value) === drawn.current) made.current?.show(chart.value);
  });
  return (
    <>
      <div ref={holder} class="fleet-chart" aria-hidden="true" />
      <ul class="fleet-key">
        {chart.value.lines.map(({ label, colour, dashed }) => (
          <li key={label}>
            <span data-colour={colour} data-dashed={dashed} aria-hidden="true" />
            {label}
          </li>
        ))}
      </ul>
    </>
  );
}
