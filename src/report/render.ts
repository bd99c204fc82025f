/** Builds the document of a report of any kind. */
import type { Baseline } from '../measure/judging/baseline.ts';
import { type AnyReport, commandOf } from '../measure/schemas/report-kinds.ts';
import { benchParts } from './bench.ts';
import type { Check } from './checks.ts';
import { baselineSection, checksSection, checkVerdicts, setUpSection } from './common.ts';
import type { DocumentParts, ReportDocument } from './document.ts';
import { runParts } from './run.ts';
import { sweepParts } from './sweep.ts';

function partsOf(report: AnyReport): DocumentParts {
  if (report.kind === 'bench') return benchParts(report);
  return report.kind === 'sweep' ? sweepParts(report) : runParts(report);
}

export function documentOf(
  report: AnyReport,
  checks: readonly Check[],
  baseline: Baseline | null,
): ReportDocument {
  const { headline, subtitle, incomplete, labels, sections, facts } = partsOf(report);
  const { kvferry, created } = report;
  const command = commandOf(report);
  return {
    command: `kvferry ${command}`,
    headline,
    subtitle,
    verdicts: [
      ...(incomplete === null ? [] : [{ tone: 'bad', text: `incomplete: ${incomplete}` } as const]),
      ...checkVerdicts(checks),
      ...labels.map((text) => ({ tone: 'plain', text }) as const),
    ],
    sections: [
      ...sections,
      ...(baseline ? [baselineSection(baseline)] : []),
      checksSection(checks),
      setUpSection(report, facts),
    ],
    footer: `kvferry ${kvferry} ${command}, ${created.slice(0, 19).replace('T', ' ')} UTC. Times are measured; bytes are counted where they are copied.`,
  };
}
