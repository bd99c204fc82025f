/**
 * A canvas that is drawn when a watched signal changes, and on every frame while `draw` returns true. Sharp on any screen;
 * not drawn while it is out of view.
 */
import { effect } from '@preact/signals';
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks';
import type { Frame } from './frame.ts';
import { timed } from './frame-meter.ts';
import { type Palette, printing, readPalette, themeVersion } from './palette.ts';

export interface SurfaceProps {
  /** Name in the drawing times. */
  name: string;
  /** Height for a width, CSS pixels. */
  heightFor(width: number): number;
  /** Reads the signals that the picture depends on. */
  watch(): void;
  /** True: draw again next frame. */
  draw(frame: Frame): boolean;
  /** Gets the function that requests a drawing from outside (focus, hover). */
  onReady?(redraw: () => void): void;
}

export function Surface({ name, heightFor, watch, draw, onReady }: SurfaceProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const latest = useRef({ heightFor, draw });
  latest.current = { heightFor, draw };

  // Sized before the first frame, so that the content below does not jump.
  useLayoutEffect(() => {
    const width = canvas.current!.parentElement!.clientWidth;
    if (width > 0) fitToScreen(canvas.current!, width, heightFor(width));
  }, []);

  useEffect(() => {
    const element = canvas.current!;
    const context = element.getContext('2d')!;
    let palette: Palette;
    let pending = 0;
    let lastMs = 0;
    let visible = true;

    const paint = (atMs: number) => {
      pending = 0;
      const width = element.parentElement!.clientWidth;
      if (width === 0) return;
      const height = latest.current.heightFor(width);
      fitToScreen(element, width, height);
      const elapsedMs = lastMs === 0 ? 0 : Math.min(atMs - lastMs, 100);
      const more = timed(name, () => {
        const scale = element.width / width;
        context.setTransform(scale, 0, 0, scale, 0, 0);
        context.clearRect(0, 0, width, height);
        return latest.current.draw({ context, width, height, palette, elapsedMs });
      });
      lastMs = more ? atMs : 0;
      if (more) redraw();
    };
    const redraw = () => {
      if (pending === 0 && visible) pending = requestAnimationFrame(paint);
    };
    const stopWatching = effect(() => {
      watch();
      redraw();
    });
    const stopTheme = effect(() => {
      themeVersion.value;
      palette = readPalette(element);
      if (printing.value) {
        cancelAnimationFrame(pending);
        paint(performance.now());
      } else redraw();
    });
    const resized = new ResizeObserver(redraw);
    resized.observe(element.parentElement!);
    const seen = new IntersectionObserver((entries) => {
      // Several may have been collected; the last one is the newest.
      visible = entries.at(-1)?.isIntersecting ?? true;
      redraw();
    });
    seen.observe(element);
    onReady?.(redraw);
    return () => {
      stopWatching();
      stopTheme();
      resized.disconnect();
      seen.disconnect();
      cancelAnimationFrame(pending);
    };
  }, []);

  return (
    <div aria-hidden="true">
      <canvas ref={canvas} />
    </div>
  );
}

function fitToScreen(element: HTMLCanvasElement, width: number, height: number): void {
  const ratio = Math.min(globalThis.devicePixelRatio || 1, 3);
  const [w, h] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (element.width !== w || element.height !== h) {
    element.width = w;
    element.height = h;
    element.style.width = `${width}px`;
    element.style.height = `${height}px`;
  }
}
