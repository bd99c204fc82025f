/** Fonts for canvases, never smaller than the palette's `least`. */
import type { Palette } from './palette.ts';

export const font = (palette: Palette, size: number, weight = 400): string =>
  `${weight === 400 ? '' : `${weight} `}${Math.max(size, palette.least)}px ${palette.sans}`;
