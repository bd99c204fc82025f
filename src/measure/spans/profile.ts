/** Builds a kernel profile from sums by kernel and layer: times by the device's clock, compared with the adapter's ceilings. */
import { z } from 'zod';
import { sumOf } from '../../sum.ts';

const layerSchema = z.strictObject({
  layer: z.number().int().nonnegative().nullable().describe('null: not part of a layer.'),
  calls: z.number().int().positive(),
  ms: z.number().nonnegative(),
});

const kernelSchema = z.strictObject({
  kernel: z.string().describe('What it computes.'),
  calls: z.number().int().positive(),
  ms: z.number().nonnegative().describe("Over all calls, by the device's clock."),
  share: z.number().describe('Share of the time of all kernels.'),
  gflops: z.number().describe('10^9 operations per second; a multiply-add counts as two.'),
  gbps: z.number().describe('10^9 bytes per second, counting each operand read and each result write once.'),
  bound: z.enum(['arithmetic', 'memory']).describe("Which of the adapter's two ceilings limits this kernel."),
  of_ceiling: z.number().describe('Its rate as a share of that ceiling.'),
  layers: z.array(layerSchema),
});

const engineProfileSchema = z.strictObject({
  engine_id: z.string(),
  clock_step_ns: z
    .number()
    .nullable()
    .describe(
      "Smallest observed step of the device's clock, which limits the resolution; null: none observed.",
    ),
  ceilings: z
    .strictObject({ gflops: z.number(), gbps: z.number() })
    .describe(
      'Ceilings for multiply-adds on registers and for plain reads, measured after the run in the same process.',
    ),
  kernels: z.array(kernelSchema).describe('Slowest first.'),
});

export const profileSchema = z
  .strictObject({
    mode: z.string().describe('The mode that was profiled in an additional run.'),
    engines: z.array(engineProfileSchema),
  })
  .describe(
    "Kernels, each in its own pass, timed by the device's clock. A separate, slower run that does not count in other figures.",
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

/** Sums of one engine. */
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
  const allNs = sumOf(totals, ({ ns }) => ns);
  const kernels = [...byKernel].map(([kernel, parts]) => {
    const sum = (of: (part: (typeof parts)[number]) => number): number => sumOf(parts, of);
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
