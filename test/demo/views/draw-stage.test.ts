import { expect, it } from 'vitest';
import { layoutStage } from '../../../demo/src/views/geometry.ts';
import type { Palette } from '../../../demo/src/views/palette.ts';
import { drawStage, type StageModel } from '../../../demo/src/views/stage/draw-stage.ts';

const nothing: StageModel = {
  blocks: { prefill: [], decode: [] },
  alive: { prefill: true, decode: true },
  flights: [],
  awaited: { prefill: new Set(), decode: new Set() },
  slabs: { d_to_p: null, p_to_d: null },
  slabFill: { d_to_p: 0, p_to_d: 0 },
  last: { d_to_p: null, p_to_d: null },
  elsewhere: { d_to_p: false, p_to_d: false },
  asked: false,
  again: false,
  look: () => {
    throw new Error('there is no block');
  },
  glow: () => null,
  focus: null,
  layer: null,
  lit: () => false,
};

const painted = (least: number): Palette =>
  new Proxy({ least } as Palette, { get: (given, name) => (name === 'least' ? given.least : '#000') });

/** The x of each way's arrow, and of the centre of its text. */
function drawn(width: number, least: number): { arrowX: number; wordsX: number }[] {
  const starts: number[] = [];
  const words: number[] = [];
  const context = new Proxy({} as CanvasRenderingContext2D, {
    get: (_, name) => {
      if (name === 'moveTo') return (x: number) => starts.push(x);
      if (name === 'fillText')
        return (text: string, x: number) => {
          if (/^(back|handover): /.test(text)) words.push(x);
        };
      return () => {};
    },
    set: () => true,
  });
  const layout = layoutStage(width, { prefill: 64, decode: 64 }, least);
  expect(layout).toMatchObject({ direction: 'down', ways: 'beside' });
  drawStage(context, layout, nothing, painted(least));
  // An arrow is a line and then its head, which starts 4 pixels to the left.
  return words.map((wordsX, i) => ({ arrowX: starts[2 * i]!, wordsX }));
}

it('an arrow does not touch its text at any text size', () => {
  // Half the width of “handover: P → D” at each text size.
  for (const [least, half] of [
    [0, 52],
    [18, 78],
  ] as const)
    for (const width of [390, 580, 610])
      for (const { arrowX, wordsX } of drawn(width, least))
        expect(wordsX - half, `${width} wide, letters of ${least}`).toBeGreaterThan(arrowX + 4);
});

/** The words below both ways. */
function wordsOf(model: Partial<StageModel>): string[] {
  const words: string[] = [];
  const context = new Proxy({} as CanvasRenderingContext2D, {
    get: (_, name) => (name === 'fillText' ? (text: string) => words.push(text) : () => {}),
    set: () => true,
  });
  const layout = layoutStage(1200, { prefill: 64, decode: 64 }, 0);
  drawStage(context, layout, { ...nothing, ...model }, painted(0));
  return words;
}

it('that nothing was pulled is not said of a turn whose KV was computed again', () => {
  expect(wordsOf({ asked: true })).toContain('none for this turn');
  const again = wordsOf({ asked: true, again: true });
  expect(again).not.toContain('none for this turn');
  expect(again).toContain('was computed again');
});
