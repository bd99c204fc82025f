/** The animation of saves and loads between engine tiles and the store. */
import { afterEach, expect, test } from 'vitest';
import { StoreMoves } from '../../demo/src/fleet/store-moves.ts';
import { type Palette, reducedMotion } from '../../demo/src/views/palette.ts';
import type { StoreMove } from '../../src/simulate/live/view.ts';

afterEach(() => {
  reducedMotion.value = false;
});

const PLACES = { P0: { x: 100, y: 50 }, store: { x: 300, y: 50 } };
const places = (name: string) => PLACES[name as keyof typeof PLACES] ?? null;

const move = (number: number, loads: boolean, engineId = 'P0'): StoreMove => {
  return { number, loads, engineId, atMs: 0, blocks: 1 };
};

/** The centres of the drawn squares after a frame of `elapsedMs`. */
function drawn(moves: StoreMoves, elapsedMs: number) {
  const squares: number[] = [];
  const context = {
    fillRect: (x: number, _y: number, width: number) => squares.push(x + width / 2),
    strokeRect: () => {},
  };
  const frame = { context: context as unknown as CanvasRenderingContext2D, palette: {} as Palette };
  const more = moves.draw({ ...frame, width: 400, height: 100, elapsedMs }, places);
  return { squares, more };
}

test('each save flies from engine to store once, and each load back', () => {
  const moves = new StoreMoves();
  const told = [move(1, false), move(2, true)];
  moves.take(told);
  expect(drawn(moves, 0)).toEqual({ squares: [100], more: true });
  const [saved, loaded] = drawn(moves, 350).squares;
  expect(saved).toBeGreaterThan(195);
  expect(saved! + loaded!).toBeGreaterThan(400);
  moves.take(told);
  expect(drawn(moves, 1000)).toEqual({ squares: [], more: false });
  moves.take([...told, move(3, false)]);
  expect(drawn(moves, 0).squares).toEqual([100]);
});

test('moves of unknown engines are not drawn, and numbering restarts with another store', () => {
  const moves = new StoreMoves();
  moves.take([move(5, false, 'P9')]);
  expect(drawn(moves, 10).squares).toEqual([]);
  moves.take([move(1, false)]);
  expect(drawn(moves, 0).squares).toEqual([100]);
});

test('with reduced motion nothing flies, and those moves are not drawn later', () => {
  const moves = new StoreMoves();
  reducedMotion.value = true;
  moves.take([move(1, false), move(2, true)]);
  expect(drawn(moves, 10)).toEqual({ squares: [], more: false });
  reducedMotion.value = false;
  moves.take([move(1, false), move(2, true)]);
  expect(drawn(moves, 10)).toEqual({ squares: [], more: false });
});
