/** Prints assertions and the comparison with a baseline. */

import { plural } from '../../measure/format.ts';
import type { AssertionResult } from '../../measure/judging/assertions.ts';
import type { Baseline } from '../../measure/judging/baseline.ts';
import { baselineSentence, changeOf, showFigure } from '../../report/common.ts';
import { left, right } from '../../report/document.ts';
import type { Output } from '../deps.ts';
import { WIDTH, wrap } from './format.ts';
import { printer, renderTable } from './table.ts';

export function printAssertions(results: readonly AssertionResult[], out: Output, color: boolean): void {
  const { print, c } = printer(out, color);
  print(['', c.bold('assertions')]);
  for (const { text, passed, found } of results) {
    const mark = passed ? c.green('ok    ') : c.red('FAILED');
    const [first, ...rest] = wrap(`${text}: ${found}`, WIDTH - 8);
    print([`${mark}  ${first}`, ...rest.map((line) => `        ${line}`)]);
  }
  const failed = results.filter(({ passed }) => !passed).length;
  const all =
    results.length === 1 ? 'The assertion holds.' : `All ${plural(results.length, 'assertion')} hold.`;
  print([failed === 0 ? c.green(all) : c.red(`${failed} of ${plural(results.length, 'assertion')} failed.`)]);
}

export function printBaseline(baseline: Baseline, out: Output, color: boolean): void {
  const { print, say, c, style } = printer(out, color);
  print([
    '',
    `${c.bold('compared with the baseline')} ${baseline.file}, from ${baseline.created.slice(0, 10)}`,
  ]);
  for (const difference of baseline.differences) print(wrap(c.yellow(difference), WIDTH, '  '));
  if (!baseline.same_machine)
    say('The baseline is from another machine: only counts and ratios are compared.');
  const moved = baseline.figures.filter(({ movement }) => ['changed', 'better', 'worse'].includes(movement));
  if (moved.length > 0) {
    const columns = [left('figure'), ...right('before', 'now', 'change', '')];
    print(
      renderTable(
        columns,
        moved.map((figure) => [
          figure.name,
          showFigure(figure.before, figure.unit),
          showFigure(figure.now, figure.unit),
          changeOf(figure),
          figure.movement,
        ]),
        style,
      ),
    );
  }
  say(baselineSentence(baseline));
}
