/**
 * What every report begins with, whichever command wrote it: enough to know what it is, what wrote it, when, and on
 * which machine. A change that makes old readers read wrongly raises the version.
 */
import { z } from 'zod';
import { ARITHMETICS } from '../config/arithmetic.ts';

export const REPORT_VERSION = 1;

export const REPORT_KINDS = ['run', 'bench', 'sweep'] as const;
export type ReportKind = (typeof REPORT_KINDS)[number];
/** Those that begin alike, though no page is made of them. */
export type HeadKind = ReportKind | 'validate';

export const machineSchema = z
  .strictObject({
    cpu: z.string().describe("The processor's name."),
    cores: z.number().int().positive().describe('Logical processors.'),
    memory_bytes: z.number().int().positive(),
    os: z.string().describe('System and release.'),
    node: z.string().describe("The runtime's version."),
  })
  .describe('What the report was measured on, beside the adapter.');

const adapterSchema = z.strictObject({
  name: z.string(),
  backend: z.string().describe('The API below WebGPU, e.g. vulkan.'),
  software: z.boolean().describe('It computes on the CPU.'),
  features: z.array(z.string()),
  arithmetic: z
    .enum(ARITHMETICS)
    .optional()
    .describe(
      'What matrix products were computed in; absent: f32. Sums are f32; other logits in f16 than in f32.',
    ),
});

/** Spread into a report's schema: `z.strictObject({ ...reportHead('bench'), … })`. */
export const reportHead = <K extends HeadKind>(kind: K) => ({
  kvferry: z.string().describe("The program's version."),
  kind: z.literal(kind).describe('The command that wrote this.'),
  schema_version: z.literal(REPORT_VERSION).describe('Of this layout.'),
  created: z.iso.datetime().describe('When it was written, UTC.'),
  machine: machineSchema,
  adapter: adapterSchema,
});

export type Machine = z.infer<typeof machineSchema>;
