/** Report schemas by kind, and parsing of report files. */
import { z } from 'zod';
import { didYouMean, parseJson } from '../../config/fields.ts';
import { ConfigError } from '../../errors.ts';
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

/** The commands that write each kind. */
const WRITERS: Readonly<Record<ReportKind, string>> = {
  run: 'run',
  bench: 'bench or replay',
  sweep: 'sweep',
};

/** The command that wrote the report. */
export const commandOf = (report: AnyReport): string =>
  report.kind === 'bench' && report.workload.num_clients === 0 ? 'replay' : report.kind;

/** Reports that only the command that writes them renders. */
const RENDERED_BY_WRITER: readonly string[] = ['simulate', 'plan', 'verify'];

const WANTED = 'wanted a file that --json of kvferry run, bench, replay or sweep wrote';

/** Parses a report of bench or replay, of engines or of a server. Throws ConfigError. */
export const parseBenchReport = (text: string, file: string): BenchReport =>
  parseReport(text, file, ['bench']) as BenchReport;

/** Throws ConfigError if the text is not a report of this version and one of these kinds. `file` is for the message. */
export function parseReport(
  text: string,
  file: string,
  kinds: readonly ReportKind[] = REPORT_KINDS,
): AnyReport {
  const json = parseJson(text, file, WANTED);
  const head = headSchema.safeParse(json);
  if (!head.success) throw new ConfigError(`${file} is not a report of kvferry: ${WANTED}`);
  const { kind, schema_version: version } = head.data;
  if (!kinds.some((each) => each === kind)) {
    if (kinds === REPORT_KINDS && RENDERED_BY_WRITER.includes(kind))
      throw new ConfigError(
        `${file} is a report of kind '${kind}', which is rendered by the command that wrote it: give that command --html or --markdown; ${WANTED}`,
      );
    const wanted = kinds.length === 1 ? `one of kvferry ${WRITERS[kinds[0]!]}` : `one of ${kinds.join(', ')}`;
    throw new ConfigError(
      `${file} is a report of kind '${kind}': wanted ${wanted}${didYouMean(kind, kinds)}`,
    );
  }
  if (version !== REPORT_VERSION) {
    throw new ConfigError(
      `${file} has layout ${version}, and this kvferry reads layout ${REPORT_VERSION}: create the report again with this version`,
    );
  }
  const parsed = schemaOf(kind as ReportKind).safeParse(json);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  throw new ConfigError(
    `${file} is not a valid report of kvferry ${kind}: ${issue!.path.join('.') || 'the report'}: ${issue!.message}; create it again with this version of kvferry`,
    { cause: parsed.error },
  );
}

const headSchema = z.looseObject({ kvferry: z.string(), kind: z.string(), schema_version: z.number() });
