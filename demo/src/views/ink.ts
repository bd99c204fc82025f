/** Chooses the ink with the better contrast on a translucent colour over a ground. No DOM. */

type Rgb = readonly [number, number, number];

/** `hex`: '#rrggbb', as in the stylesheet. */
function rgbOf(hex: string): Rgb {
  const value = Number.parseInt(hex.slice(1), 16);
  return [value >> 16, (value >> 8) & 255, value & 255];
}

/** Relative luminance (WCAG 2). */
function luminance(colour: Rgb): number {
  const [r, g, b] = colour.map((part) => {
    const share = part / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  }) as [number, number, number];
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

function contrast(a: number, b: number): number {
  return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
}

const chosen = new Map<string, string>();

/** `opacity`: of the colour over the ground, 0 to 1; rounded to twentieths. */
export function betterInk(
  inks: readonly [string, string],
  colour: string,
  opacity: number,
  ground: string,
): string {
  const share = Math.round(opacity * 20) / 20;
  const key = `${inks} ${colour} ${share} ${ground}`;
  const known = chosen.get(key);
  if (known !== undefined) return known;
  const below = rgbOf(ground);
  const mixed = rgbOf(colour).map((part, i) => part * share + below[i]! * (1 - share)) as unknown as Rgb;
  const light = luminance(mixed);
  const [first, second] = inks;
  const ink =
    contrast(luminance(rgbOf(first)), light) >= contrast(luminance(rgbOf(second)), light) ? first : second;
  chosen.set(key, ink);
  return ink;
}
