/**
 * The header of every report: kind, program version, time, machine. A change that would make old readers misread a report
 * raises the version.
 */
import { z } from 'zod';
import { ARITHMETICS } from '../../config/arithmetic.ts';

export const REPORT_VERSION = 1;

export const REPORT_KINDS = ['run', 'bench', 'sweep'] as const;
export type ReportKind = (typeof REPORT_KINDS)[number];
/** Other kinds with the same header, for which there are no pages. */
export type HeadKind = ReportKind | 'validate';

export const machineSchema = z
  .strictObject({
    cpu: z.string().describe("The processor's name."),
    cores: z.number().int().positive().describe('Logical processors.'),
    memory_bytes: z.number().int().positive(),
    os: z.string().describe('System and release.'),
    node: z.string().describe("The runtime's version."),
  })
  .describe('The machine, apart from the adapter.');

const adapterSchema = z.strictObject({
  name: z.string(),
  backend: z.string().describe('The API below WebGPU, e.g. vulkan.'),
  software: z.boolean().describe('Whether it computes on the CPU.'),
  features: z.array(z.string()),
  arithmetic: z
    .enum(ARITHMETICS)
    .optional()
    .describe(
      'Precision of matrix products; absent: f32. Sums are always f32. Logits differ between f16 and f32.',
    ),
});

/** Spread into a report's schema: `z.strictObject({ ...reportHead('bench'), … })`. */
export const reportHead = <K extends HeadKind>(kind: K) => ({
  kvferry: z.string().describe("The program's version."),
  kind: z.literal(kind).describe('The command that wrote this.'),
  schema_version: z.literal(REPORT_VERSION).describe('Version of this layout.'),
  created: z.iso.datetime().describe('When it was written, UTC.'),
  machine: machineSchema,
  adapter: adapterSchema,
});

export type Machine = z.infer<typeof machineSchema>;
