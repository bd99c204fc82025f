/** Shared by the uPlot charts: axes in the page's colours and fonts, and a width that follows the container. */
import type uPlot from 'uplot';
import { font } from '../fonts.ts';
import type { Palette } from '../palette.ts';

/** Fonts come from the current palette, colours from the palette at each drawing. */
export const axisIn =
  (palette: () => Palette) =>
  (label: string): uPlot.Axis => ({
    label,
    labelSize: Math.max(20, palette().least + 6),
    labelFont: font(palette(), 12),
    font: font(palette(), 11),
    stroke: () => palette().ink2,
    grid: { stroke: () => palette().line, width: 1 },
    ticks: { stroke: () => palette().line, width: 1 },
  });

/** Disconnect the returned observer before the plot is destroyed. */
export function followWidth(plot: uPlot, holder: HTMLElement, height: number): ResizeObserver {
  const observer = new ResizeObserver(() => {
    if (holder.clientWidth > 0) plot.setSize({ width: holder.clientWidth, height });
  });
  observer.observe(holder);
  return observer;
}
