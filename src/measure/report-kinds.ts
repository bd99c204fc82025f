/** The reports there are, by kind: their schemas, and one read from a file's text. */
import { z } from 'zod';
import { didYouMean, parseJson } from '../config/fields.ts';
import { ConfigError } from '../errors.ts';
import { type BenchReport, benchReportSchema } from './bench-report.ts';
import { type Report, reportSchema } from './report.ts';
import { REPORT_KINDS, REPORT_VERSION, type ReportKind } from './report-head.ts';
import { type SweepReport, sweepReportSchema } from './sweep-report.ts';

export type AnyReport = Report | BenchReport | SweepReport;

const SCHEMAS: Readonly<Record<ReportKind, z.ZodType<AnyReport>>> = {
  run: reportSchema,
  bench: benchReportSchema,
  sweep: sweepReportSchema,
};

export const schemaOf = (kind: ReportKind): z.ZodType<AnyReport> => SCHEMAS[kind];

const WANTED = 'wanted a file that --json wrote';

/** Throws ConfigError when the text is no report of this version. `file` is for the message. */
export function parseReport(text: string, file: string): AnyReport {
  const json = parseJson(text, file, WANTED);
  const head = headSchema.safeParse(json);
  if (!head.success) throw new ConfigError(`${file} is no report of kvferry: ${WANTED}`);
  const { kind, schema_version: version } = head.data;
  if (!(kind in SCHEMAS)) {
    throw new ConfigError(
      `${file} is a report of kind '${kind}': wanted one of ${REPORT_KINDS.join(', ')}${didYouMean(kind, REPORT_KINDS)}`,
    );
  }
  if (version !== REPORT_VERSION) {
    throw new ConfigError(
      `${file} has layout ${version} and this is kvferry for layout ${REPORT_VERSION}: make the report anew with this version`,
    );
  }
  const parsed = schemaOf(kind as ReportKind).safeParse(json);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  throw new ConfigError(
    `${file} is not as kvferry ${kind} writes it: ${issue!.path.join('.') || 'the report'}: ${issue!.message}; make it anew`,
    { cause: parsed.error },
  );
}

const headSchema = z.looseObject({ kvferry: z.string(), kind: z.string(), schema_version: z.number() });
