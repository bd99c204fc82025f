/** What a canvas gets to draw one frame. */
import type { Palette } from './palette.ts';

export interface Frame {
  context: CanvasRenderingContext2D;
  /** CSS pixels. */
  width: number;
  height: number;
  palette: Palette;
  /** Milliseconds since the last frame of this canvas; 0 after a pause. */
  elapsedMs: number;
}
