/**
 * What every measuring command does with its report beside printing tables: `--json`, `--html`, `--markdown`, `--junit`,
 * `--assert`, `--baseline`. All that can go wrong with these options is found before the work.
 */
import type { RunConfig } from '../config/run.ts';
import { ConfigError } from '../errors.ts';
import { assertionSchema, checkAssertion, evaluateAssertion, parseAssertion } from '../measure/assertions.ts';
import { compareWithBaseline, refuseOther } from '../measure/baseline.ts';
import type { ReportKind } from '../measure/report-head.ts';
import { type AnyReport, parseReport, schemaOf } from '../measure/report-kinds.ts';
import { checksOf } from '../report/checks.ts';
import type { ReportDocument } from '../report/document.ts';
import { renderHtml } from '../report/html/page.ts';
import { renderJunit } from '../report/junit.ts';
import { renderMarkdown } from '../report/markdown.ts';
import { documentOf } from '../report/render.ts';
import { type CliDeps, EXIT, type ExitCode } from './deps.ts';
import { textOutput, writeJson } from './json-option.ts';
import { printAssertions, printBaseline } from './outputs-text.ts';

export interface Outputs {
  /** Judges the report, prints what was asked of it, writes the files; `good`, or `assertion` when one failed. */
  finish(report: AnyReport): Promise<ExitCode>;
}

const FILES = ['html', 'markdown', 'junit'] as const;

/** Throws ConfigError. `model` is null where only the report tells it. */
export async function prepareOutputs(
  config: RunConfig,
  kind: ReportKind,
  model: string | null,
  deps: CliDeps,
): Promise<Outputs> {
  await checkFiles(config, deps);
  const assertions = config.assert.map(parseAssertion);
  const schema = assertionSchema(schemaOf(kind), config.baseline !== null);
  const asksBaseline = assertions.find(({ left, right }) =>
    [left, right].some((side) => side.kind === 'path' && side.steps[0] === 'baseline'),
  );
  if (asksBaseline && config.baseline === null) {
    throw new ConfigError(
      `the assertion '${asksBaseline.text}' names the baseline and there is none: give --baseline FILE`,
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
        const xml = renderJunit(checks, { suite: `kvferry ${kind}`, created: report.created, properties });
        await deps.writeTextFile(config.junit, xml);
      }
      await writePages(documentOf(report, checks, baseline), config, deps);
      return results.every(({ passed }) => passed) ? EXIT.good : EXIT.assertion;
    },
  };
}

export async function writePages(
  document: ReportDocument,
  { html, markdown }: Pick<RunConfig, 'html' | 'markdown'>,
  deps: Pick<CliDeps, 'writeTextFile'>,
): Promise<void> {
  if (html !== null) await deps.writeTextFile(html, renderHtml(document));
  if (markdown !== null) await deps.writeTextFile(markdown, renderMarkdown(document));
}

/** Two outputs to one file would lose the first. */
export async function checkFiles(config: RunConfig, deps: CliDeps): Promise<void> {
  const taken = new Map<string, string>();
  if (typeof config.json === 'string') taken.set(config.json, '--json');
  for (const name of FILES) {
    const file = config[name];
    if (file === null) continue;
    const other = taken.get(file);
    if (other !== undefined)
      throw new ConfigError(`${other} and --${name} both write ${file}: give each a file of its own`);
    taken.set(file, `--${name}`);
    await deps.checkWritable(file);
  }
}
