/** --assert and --junit of reports that no kind of baseline is made of: those of simulations and plans. */
import type { z } from 'zod';
import type { RunConfig } from '../../config/run.ts';
import {
  assertionSchema,
  checkAssertion,
  evaluateAssertion,
  parseAssertion,
} from '../../measure/judging/assertions.ts';
import { assertionChecks, type Check } from '../../report/checks.ts';
import { type JunitCase, renderJunit } from '../../report/junit.ts';
import { type CliDeps, EXIT, type ExitCode } from '../deps.ts';
import { textOutput } from './json-option.ts';
import { printAssertions } from './outputs-text.ts';

/** What the command itself checks. */
export type OwnCheck = Pick<Check, 'name' | 'passed' | 'message'>;

export type Judge = (report: unknown, own: readonly OwnCheck[]) => Promise<ExitCode>;

/**
 * Returns what prints the assertions and writes JUnit once there is a report. Its exit code: `failed` if one of the
 * command's own checks fails, else `assertion` if an assertion does. Throws ConfigError for one that cannot hold.
 */
export function prepareAssertions(
  command: string,
  schema: z.ZodType,
  config: RunConfig,
  deps: CliDeps,
): Judge {
  const assertions = config.assert.map(parseAssertion);
  const paths = assertionSchema(schema, false);
  for (const assertion of assertions) checkAssertion(assertion, paths);
  return async (report, own) => {
    const results = assertions.map((assertion) => evaluateAssertion(assertion, report, paths));
    if (results.length > 0) printAssertions(results, textOutput(config, deps), deps.color);
    if (config.junit !== null) {
      const cases: JunitCase[] = [
        ...own.map((check) => ({ ...check, group: command, seconds: null })),
        ...assertionChecks(results),
      ];
      const about = { suite: `kvferry ${command}`, created: deps.today() };
      const xml = renderJunit(cases, { ...about, properties: [['kvferry', deps.version]] });
      await deps.writeTextFile(config.junit, xml);
    }
    if (!own.every(({ passed }) => passed)) return EXIT.failed;
    return results.every(({ passed }) => passed) ? EXIT.good : EXIT.assertion;
  };
}
