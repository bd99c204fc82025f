/** Kernels by the device's own clock, held against what the adapter can do. From sums by kernel and layer to a report. */
import { z } from 'zod';

const layerSchema = z.strictObject({
  layer: z.number().int().nonnegative().nullable().describe('null: not of a layer.'),
  calls: z.number().int().positive(),
  ms: z.number().nonnegative(),
});

const kernelSchema = z.strictObject({
  kernel: z.string().describe('What it computes.'),
  calls: z.number().int().positive(),
  ms: z.number().nonnegative().describe("By the device's clock, over all calls."),
  share: z.number().describe("Of all kernels' time."),
  gflops: z.number().describe('10^9 operations a second; a multiply-add is two.'),
  gbps: z.number().describe('10^9 bytes a second, each operand read and each result written once.'),
  bound: z
    .enum(['arithmetic', 'memory'])
    .describe("Which of the adapter's two ceilings would end it sooner, at the work it has."),
  of_ceiling: z.number().describe('Its rate as a share of that ceiling.'),
  layers: z.array(layerSchema),
});

const engineProfileSchema = z.strictObject({
  engine_id: z.string(),
  clock_step_ns: z
    .number()
    .nullable()
    .describe(
      "The smallest step seen of the device's clock: what is shorter cannot be told. null: none seen.",
    ),
  ceilings: z
    .strictObject({ gflops: z.number(), gbps: z.number() })
    .describe('Multiply-adds on registers, and plain reads: measured after the run, in the same process.'),
  kernels: z.array(kernelSchema).describe('The longest first.'),
});

export const profileSchema = z
  .strictObject({
    mode: z.string().describe('The mode that ran once more, profiled.'),
    engines: z.array(engineProfileSchema),
  })
  .describe(
    "Kernels, each in a pass of its own, timed by the device's clock: a run of its own, slower than the others and in no figure of theirs.",
  );

export type ProfileReport = z.infer<typeof profileSchema>;
export type EngineProfileReport = z.infer<typeof engineProfileSchema>;

/** A kernel of one layer, summed over its calls. Nanoseconds are the device's. */
export interface KernelTotals {
  kernel: string;
  layer: number | null;
  calls: number;
  ns: number;
  flops: number;
  bytes: number;
}

/** One engine's sums. */
export interface MeasuredKernels {
  engineId: string;
  totals: readonly KernelTotals[];
  smallestStepNs: number | null;
  ceilings: { gflops: number; readGbps: number };
}

export function engineProfile(measured: MeasuredKernels): EngineProfileReport {
  const { engineId, totals, smallestStepNs, ceilings } = measured;
  const byKernel = new Map<string, (typeof totals)[number][]>();
  for (const part of totals) byKernel.set(part.kernel, [...(byKernel.get(part.kernel) ?? []), part]);
  const allNs = totals.reduce((sum, { ns }) => sum + ns, 0);
  const kernels = [...byKernel].map(([kernel, parts]) => {
    const sum = (of: (part: (typeof parts)[number]) => number): number =>
      parts.reduce((total, part) => total + of(part), 0);
    const ns = sum((part) => part.ns);
    const flops = sum((part) => part.flops);
    const bytes = sum((part) => part.bytes);
    const rate = (amount: number): number => (ns > 0 ? amount / ns : 0);
    const arithmetic = flops / ceilings.gflops > bytes / ceilings.readGbps;
    return {
      kernel,
      calls: sum((part) => part.calls),
      ms: ns / 1e6,
      share: allNs > 0 ? ns / allNs : 0,
      gflops: rate(flops),
      gbps: rate(bytes),
      bound: arithmetic ? ('arithmetic' as const) : ('memory' as const),
      of_ceiling: arithmetic ? rate(flops) / ceilings.gflops : rate(bytes) / ceilings.readGbps,
      layers: parts.map((part) => ({ layer: part.layer, calls: part.calls, ms: part.ns / 1e6 })),
    };
  });
  return {
    engine_id: engineId,
    clock_step_ns: smallestStepNs,
    ceilings: { gflops: ceilings.gflops, gbps: ceilings.readGbps },
    kernels: kernels.sort((a, b) => b.ms - a.ms),
  };
}

export type TimingMode = 'submits' | 'kernels';
