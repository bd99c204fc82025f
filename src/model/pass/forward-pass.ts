/**
 * The kernels of a model in order: every dispatch of a pass over one piece, with its bind group, created once. Only
 * this file, products.ts and attention-stages.ts know which buffers a kernel reads and writes.
 */
import type { GpuDevice } from '../../gpu/device.ts';
import type { Kernel, KernelLibrary } from '../../gpu/kernels.ts';
import type { GpuKvMemory } from '../../gpu/kv-memory.ts';
import { type UniformName, type UniformValues, uniformBuffer } from '../../gpu/uniforms.ts';
import { type KvGroups, placeOf } from '../architecture/kv-groups.ts';
import { attentionOf, attentionScale } from '../architecture/layer-attention.ts';
import { type AdapterForm, compiledGemmFor, ropeThreads, type Want } from '../kernels/kernel-variants.ts';
import type { PassKernels } from '../kernels/pass-kernels.ts';
import { type Architecture, pad4 } from '../types.ts';
import type { DeviceLayer, DeviceMatrix, DeviceWeights } from '../weights/device-weights.ts';
import { matricesOf } from '../weights/matrices.ts';
import { PANEL_COLUMNS } from '../weights/panels.ts';
import type { Activations } from './activations.ts';
import { createAttention } from './attention-stages.ts';
import { createProducts } from './products.ts';
import type { Stage, Work } from './stage.ts';
import type { Piece } from './step-inputs.ts';

export interface ForwardPass {
  /**
   * The piece's dispatches, in order. A piece without logits skips everything after the last layer's K and V are
   * written.
   */
  dispatches(piece: Piece): Work[];
  /** As dispatches(), but with the first layer only, for the warm-up. The results are meaningless. */
  firstLayer(piece: Piece): Work[];
  /** Query heads per KV head. */
  group: number;
  /** Flattened attention rows per workgroup, for which the piece's tiles are cut. */
  tileRows(piece: Piece): number;
  /** Multiply-adds for a row of a layer's largest matrix, and for a (row, key) pair of attention. */
  rowWork: number;
  pairWork: number;
  /** Among the kernels with pipelines; requests no compilation. */
  gemmKernel(rows: number): Kernel;
  /** For pieces of many rows; requests no compilation. */
  attentionKernel(): Kernel;
  stepUniform: GPUBuffer;
  destroy(): void;
}

export interface ForwardPassParts {
  gpu: GpuDevice;
  library: KernelLibrary;
  form: AdapterForm;
  architecture: Architecture;
  weights: DeviceWeights;
  kernels: PassKernels;
  activations: Activations;
  kv: GpuKvMemory;
  groups: KvGroups;
  /** Called with kernels that have no pipeline yet and were replaced by others. */
  want: Want;
}

export function createForwardPass(parts: ForwardPassParts): ForwardPass {
  const { gpu, library, form, architecture, weights, activations: act, kv, groups, want } = parts;
  const { hiddenSize, numHeads, numKvHeads, headDim, intermediateSize, vocabSize } = architecture;
  const matrices = matricesOf(architecture);
  const group = numHeads / numKvHeads;
  const hidden4 = pad4(hiddenSize) / 4;
  const WORKGROUP = form.workgroup;
  const uniforms: GPUBuffer[] = [];

  function uniform<N extends UniformName>(name: N, values: UniformValues<N>): GPUBuffer {
    const buffer = uniformBuffer(gpu.device, name, values);
    uniforms.push(buffer);
    return buffer;
  }

  const step = uniform('step', { rows: 0, logit_rows: 0 });
  const { gemm, fused, embed, logitNorm, rope, swiglu, sample } = parts.kernels;
  const attention = createAttention({
    library,
    form,
    architecture,
    activations: act,
    kv,
    groups,
    variants: parts.kernels.attention,
    uniform,
    stepUniform: step,
    want,
  });

  const stage = (kernel: Kernel, label: string, buffers: readonly GPUBuffer[], size: SizeOf): Stage => {
    const bindGroup = library.bind(kernel, label, buffers);
    return (piece) => ({ kernel, bindGroup, label, ...size(piece) });
  };

  const perRow = (columns: number): SizeOf => {
    const x = Math.ceil(columns / WORKGROUP);
    return ({ numRows }) => ({ x, y: numRows, work: numRows * columns });
  };

  const { multiply, addToX, normedProduct, normParams } = createProducts({
    library,
    architecture,
    activations: act,
    kernels: parts.kernels,
    uniform,
    stepUniform: step,
    want,
  });

  const swigluParams = uniform('swiglu', {
    width: intermediateSize,
    width4: pad4(intermediateSize) / 4,
    stride4: pad4(matrices['gate up'].outputs) / 4,
  });

  /** The stages up to the write of K and V, and the rest. */
  const layerStages = (layer: DeviceLayer, index: number): { upToKv: Stage[]; rest: Stage[] } => {
    const name = (what: string) => `layer ${index} ${what}`;
    const place = placeOf(groups, index);
    const ropeParams = uniform('ropeKvWrite', {
      heads: numHeads,
      kv_heads: numKvHeads,
      ...kv.placeOfLayer(place.index, groups.layersPerBlock),
      scale: attentionScale(architecture),
      eps: architecture.rmsNormEps,
    });
    const turned = [
      act.turns[attentionOf(architecture, index).kind],
      act.tokens[place.group]!,
      act.q,
      kv.buffer,
      ropeParams,
    ];
    return {
      upToKv: normedProduct({
        names: { norm: name('input norm'), product: name('qkv') },
        weight: layer.inputNorm,
        matrix: layer.qkv,
        out: act.qkv,
        fused: fused?.qkv ?? null,
        whole: turned,
        after: stage(
          rope,
          name('rope'),
          [act.qkv, layer.headNorms ?? act.none, ...turned, step],
          perRow(ropeThreads(matrices.qkv.outputs, headDim)),
        ),
      }),
      rest: [
        ...attention.layerStages(index),
        ...addToX(name('o'), act.attended, layer.o, layer.attentionOutNorm),
        ...normedProduct({
          names: { norm: name('mlp norm'), product: name('gate up') },
          weight: layer.mlpNorm,
          matrix: layer.gateUp,
          out: act.gateUp,
          fused: fused?.gateUp ?? null,
          whole: [act.activated],
          after: stage(
            swiglu,
            name('swiglu'),
            [act.gateUp, act.activated, swigluParams, step],
            perRow(pad4(intermediateSize) / 4),
          ),
        }),
        ...addToX(name('down'), act.activated, layer.down, layer.mlpOutNorm),
      ],
    };
  };

  const begin = weights.embedding.map(({ buffer, columns4: vocab4, first }) => {
    const params = uniform('embedding', {
      hidden4,
      vocab4,
      first,
      scale: architecture.embeddingScale,
      panel: PANEL_COLUMNS,
    });
    return stage(embed, 'embedding', [act.tokens[0]!, buffer, act.x, params, step], perRow(hidden4));
  });
  const layers = weights.layers.map(layerStages);
  const sampleParams = uniform('sample', { vocab: vocabSize, stride: pad4(vocabSize) });
  const logitSize: SizeOf = ({ logitRows }) => ({
    x: logitRows.length,
    y: 1,
    work: logitRows.length * vocabSize,
  });
  const end: Stage[] = [
    stage(
      logitNorm,
      'final norm',
      [act.x, weights.finalNorm, act.logitRows, act.logitNormed, normParams, step],
      ({ logitRows }) => ({ x: logitRows.length, y: 1, work: logitRows.length * hidden4 }),
    ),
    ...weights.lmHead.map((piece) =>
      multiply('lm head', act.logitNormed, piece, { piece, to: [act.logits] }),
    ),
    stage(
      sample,
      'sample',
      [act.logits, act.sampleRows, act.forbidden, act.results, sampleParams],
      logitSize,
    ),
  ];

  const worksOf = (piece: Piece, from: typeof layers): Work[] => {
    const wantsLogits = piece.logitRows.length > 0;
    const through = from.flatMap(({ upToKv, rest }, index) =>
      !wantsLogits && index === layers.length - 1 ? upToKv : [...upToKv, ...rest],
    );
    return [...begin, ...through, ...(wantsLogits ? end : [])]
      .map((of) => of(piece))
      .filter((work) => work !== null);
  };

  const largest = weights.layers
    .slice(0, 1)
    .flatMap((l) => [l.qkv, l.o, l.gateUp, l.down])
    .reduce((most, matrix) => (matrixWork(matrix) > matrixWork(most) ? matrix : most));
  return {
    dispatches: (piece) => worksOf(piece, layers),
    firstLayer: (piece) => worksOf(piece, layers.slice(0, 1)),
    group,
    tileRows: (piece) => attention.variantFor(piece).tileRows,
    rowWork: matrixWork(largest),
    pairWork: attention.pairWork,
    gemmKernel: (rows) => compiledGemmFor(gemm, rows, largest.columns4, wantNone).kernel,
    attentionKernel: attention.manyKernel,
    stepUniform: step,
    destroy: () => {
      for (const buffer of uniforms) buffer.destroy();
    },
  };
}

const wantNone: Want = () => {};

type SizeOf = (piece: Piece) => { x: number; y: number; work: number };

const matrixWork = ({ inputs4, columns4 }: DeviceMatrix): number => 16 * inputs4 * columns4;
