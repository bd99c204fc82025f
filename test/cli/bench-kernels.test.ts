/** Tables of `bench:kernels` and `bench:peers` fit 80 columns with every model, kernel form and library. */
import { expect, it } from 'vitest';
import { attentionShapes, windowPairs } from '../../src/cli/bench/kernels/attention.ts';
import { type MatrixFigure, matrixCases } from '../../src/cli/bench/kernels/matrices.ts';
import {
  attentionTable,
  errorLine,
  halvesTable,
  matrixTable,
  windowTable,
} from '../../src/cli/bench/kernels/tables.ts';
import { type AnswererName, answerers } from '../../src/cli/bench/peers/answerers.ts';
import { modelTable } from '../../src/cli/bench/peers/models.ts';
import { WIDTH, widthOf } from '../../src/cli/output/format.ts';
import { presetArchitecture, presetNames } from '../../src/model/architecture/presets.ts';
import { GEMM_FORMS } from '../../src/model/kernels/gemm-forms.ts';

const longest = (names: readonly string[]): string => names.toSorted((a, b) => b.length - a.length)[0]!;
const tooWide = (lines: readonly string[]): string[] => lines.filter((line) => widthOf(line) > WIDTH);

// Of a GPU: more than 10 TFLOP/s, and 1,000 GB/s.
const speeds = { ms: [0.25], gflops: 51234.5, error: 4e-7 };
const ceilings = { gflops: 48000, readGbps: 1000 };

it.each(presetNames)('kernel tables in the shapes of %s', (model) => {
  const kernel = longest(GEMM_FORMS);
  const matrices: MatrixFigure[] = matrixCases(presetArchitecture(model)).map((shape) => ({
    ...shape,
    ...speeds,
    kernel,
    weightGbps: 3012.4,
    readGbps: 2500,
  }));
  expect(tooWide(matrixTable(matrices, ceilings))).toEqual([]);
  expect(tooWide(halvesTable(matrices.map((figure) => ({ f32: figure, f16: figure }))))).toEqual([]);
});

// A row has two query heads per KV head, and its keys lie in up to 16 parts.
const inParts = 'attentionBlocked 2, 16 parts';
const attended = { ...speeds, kvGbps: 3012.4 };

it('tables of attention, with the parts of a split context', () => {
  const attention = attentionShapes.map((shape) => ({
    ...shape,
    ...attended,
    kernel: shape.rows === 1 ? inParts : 'attentionBlocked 16',
  }));
  expect(tooWide(attentionTable(attention, ceilings))).toEqual([]);
  const windows = windowPairs.map(({ windowed, full }) => ({
    windowed: { ...windowed, ...attended, kernel: inParts },
    full: { ...full, ...attended, kernel: 'attentionBlocked 16' },
  }));
  expect(tooWide(windowTable(windows))).toEqual([]);
});

it('the table of whole models', () => {
  const round = { prefill: 123456, decode1: 12345, decode4: 45678 };
  const figures = (Object.keys(answerers) as AnswererName[]).map((answerer) => ({
    answerer,
    answers: [round],
    why: null,
    missing: false,
    sameTokens: 160,
  }));
  expect(tooWide(modelTable('llama-3.2-1b', figures))).toEqual([]);
});

it('the largest error of each table', () => {
  const shape = {
    name: 'o',
    m: 1,
    k: 4,
    n: 4,
    kernel: 'gemm 4',
    ms: [1],
    gflops: 1,
    weightGbps: 1,
    readGbps: null,
  };
  const [small, large] = [
    { ...shape, error: 1e-7 },
    { ...shape, error: 3e-6 },
  ];
  const line = errorLine({
    matrices: [small, large, small],
    halves: [{ f32: large, f16: small }],
    attention: attentionShapes.map((each, i) => ({
      ...each,
      ...attended,
      kernel: 'attention 8',
      error: i * 1e-8,
    })),
    windows: windowPairs.map(({ windowed, full }) => ({
      windowed: { ...windowed, ...attended, kernel: 'attention 8', error: 2e-8 },
      full: { ...full, ...attended, kernel: 'attention 8', error: 1 },
    })),
  });
  expect(line).toBe(
    'largest error against float64: matrices 3e-6, in f16 1e-7, attention 5e-8, with a window 2e-8',
  );
});
