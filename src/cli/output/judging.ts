/** Checks and writes a report: assertions, baseline, JUnit, HTML, Markdown. outputs.ts loads it on demand. */
import type { RunConfig } from '../../config/run.ts';
import { ConfigError } from '../../errors.ts';
import {
  assertionSchema,
  checkAssertion,
  evaluateAssertion,
  parseAssertion,
} from '../../measure/judging/assertions.ts';
import { compareWithBaseline, refuseOther } from '../../measure/judging/baseline.ts';
import type { ReportKind } from '../../measure/schemas/report-head.ts';
import { type AnyReport, commandOf, parseReport, schemaOf } from '../../measure/schemas/report-kinds.ts';
import { checksOf } from '../../report/checks.ts';
import { renderJunit } from '../../report/junit.ts';
import { documentOf } from '../../report/render.ts';
import { type CliDeps, EXIT, type ExitCode } from '../deps.ts';
import { textOutput, writeJson } from './json-option.ts';
import { printAssertions, printBaseline } from './outputs-text.ts';
import { writePages } from './pages.ts';

export interface Outputs {
  /** Checks the report, prints assertions and baseline, writes files. `assertion` if an assertion failed, else `good`. */
  finish(report: AnyReport): Promise<ExitCode>;
}

/** Throws ConfigError for invalid assertions or an unusable baseline. */
export async function prepareJudging(
  config: RunConfig,
  kind: ReportKind,
  model: string | null,
  deps: CliDeps,
): Promise<Outputs> {
  const assertions = config.assert.map(parseAssertion);
  const schema = assertionSchema(schemaOf(kind), config.baseline !== null);
  const asksBaseline = assertions.find(({ left, right }) =>
    [left, right].some((side) => side.kind === 'path' && side.steps[0] === 'baseline'),
  );
  if (asksBaseline && config.baseline === null) {
    throw new ConfigError(
      `the assertion '${asksBaseline.text}' uses the baseline, and none is given: give --baseline FILE`,
    );
  }
  for (const assertion of assertions) checkAssertion(assertion, schema);
  const earlier =
    config.baseline === null
      ? null
      : {
          file: config.baseline,
          report: parseReport(await deps.readTextFile(config.baseline), config.baseline),
        };
  if (earlier && model !== null) refuseOther(kind, model, earlier.report, earlier.file);

  return {
    async finish(report) {
      const out = textOutput(config, deps);
      const baseline = earlier && compareWithBaseline(report, earlier.report, earlier.file);
      const results = assertions.map((assertion) =>
        evaluateAssertion(assertion, baseline ? { ...report, baseline } : report, schema),
      );
      const checks = checksOf(report, results);
      if (baseline) printBaseline(baseline, out, deps.color);
      if (results.length > 0) printAssertions(results, out, deps.color);
      await writeJson(report, config, deps);
      if (config.junit !== null) {
        const properties = [
          ['kvferry', report.kvferry],
          ['adapter', report.adapter.name],
          ['processor', report.machine.cpu],
        ] as const;
        const xml = renderJunit(checks, {
          suite: `kvferry ${commandOf(report)}`,
          created: report.created,
          properties,
        });
        await deps.writeTextFile(config.junit, xml);
      }
      await writePages(documentOf(report, checks, baseline), config, deps);
      return results.every(({ passed }) => passed) ? EXIT.good : EXIT.assertion;
    },
  };
}
