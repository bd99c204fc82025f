/** From any report to its document. */
import type { Baseline } from '../measure/baseline.ts';
import type { AnyReport } from '../measure/report-kinds.ts';
import { benchDocument } from './bench.ts';
import type { Check } from './checks.ts';
import type { ReportDocument } from './document.ts';
import { runDocument } from './run.ts';
import { sweepDocument } from './sweep.ts';

export function documentOf(
  report: AnyReport,
  checks: readonly Check[],
  baseline: Baseline | null,
): ReportDocument {
  if (report.kind === 'bench') return benchDocument(report, checks, baseline);
  if (report.kind === 'sweep') return sweepDocument(report, checks, baseline);
  return runDocument(report, checks, baseline);
}
