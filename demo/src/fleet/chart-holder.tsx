/** A line chart with the key to its lines. */
import { effect, type ReadonlySignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import 'uplot/dist/uPlot.min.css';
import { leastFont, themeVersion } from '../views/palette.ts';
import { type Chart, LineChart } from './line-chart.ts';

const labelsOf = ({ lines, simulated }: Chart): string =>
  `${simulated} ${lines.map(({ label }) => label).join()}`;

export function ChartHolder({ name, chart }: { name: string; chart: ReadonlySignal<Chart> }) {
  const holder = useRef<HTMLDivElement>(null);
  const labels = labelsOf(chart.value);
  useEffect(() => {
    const made = new LineChart(holder.current!, name, chart.peek());
    const drawn = labelsOf(chart.peek());
    const stop = effect(() => {
      themeVersion.value;
      // With other lines, a new chart is about to be made.
      if (labelsOf(chart.value) === drawn) made.show(chart.value);
    });
    return () => {
      stop();
      made.destroy();
    };
    // A chart cannot change its fonts or lines, so a change of these makes a new chart.
  }, [leastFont.value, labels, name]);
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
