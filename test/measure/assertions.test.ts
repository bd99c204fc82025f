import { describe, expect, test } from 'vitest';
import { checkAssertion, evaluateAssertion, parseAssertion } from '../../src/measure/judging/assertions.ts';
import { pathSchema } from '../../src/measure/judging/report-paths.ts';
import { reportSchema } from '../../src/measure/schemas/report.ts';

const schema = pathSchema(reportSchema);

const report = {
  comparison: { tokens_identical: true, ttft_speedup: { mean: 3.5, p50: 4 }, first_disagreement: null },
  runs: [
    { mode: 'unidirectional', summary: { pulled_tokens: 0, computed_tokens: 900 } },
    {
      mode: 'bidirectional',
      summary: { pulled_tokens: 640, computed_tokens: 260 },
      turns: [{ turn: 1 }, { turn: 2 }],
    },
  ],
  model: { name: 'recall' },
  config: { threshold: 32, 'odd key': 'a == b' },
};

const judge = (text: string, of: unknown = report) => evaluateAssertion(parseAssertion(text), of, schema);

describe('evaluating an assertion', () => {
  test.each([
    ['comparison.ttft_speedup.mean >= 1.5', true],
    ['comparison.ttft_speedup.mean>=3.5', true],
    ['comparison.ttft_speedup.mean > 3.5', false],
    ['comparison.ttft_speedup.mean < 3.6', true],
    ['comparison.ttft_speedup.mean <= 3.4', false],
    ['comparison.tokens_identical == true', true],
    ['comparison.tokens_identical != true', false],
    ['comparison.first_disagreement == null', true],
    ["model.name == 'recall'", true],
    ['model.name != "tiny"', true],
    ['runs[1].summary.pulled_tokens == 640', true],
    ['runs.1.summary.pulled_tokens == 640', true],
    ['runs[-1].mode == "bidirectional"', true],
    ['runs.bidirectional.summary.pulled_tokens >= 6.4e2', true],
    ['runs.bidirectional.turns.length == 2', true],
    ['runs.bidirectional.turns[-1].turn == 2', true],
    ['runs.bidirectional.summary.computed_tokens < runs.unidirectional.summary.computed_tokens', true],
    ['runs.bidirectional.summary.computed_tokens < 0.2 * runs.unidirectional.summary.computed_tokens', false],
    ['1.5 <= comparison.ttft_speedup.mean', true],
    ['config.threshold > -1', true],
    ['config["odd key"] == "a == b"', true],
  ])('%s is %s', (text, passed) => {
    expect(judge(text)).toMatchObject({ text, passed });
  });

  test('reports the values found on both sides', () => {
    expect(judge('comparison.ttft_speedup.mean >= 4').found).toBe('found 3.5');
    expect(
      judge('runs.bidirectional.summary.pulled_tokens > 0.5 * runs.unidirectional.summary.computed_tokens')
        .found,
    ).toBe('found 640 and 0.5 * 900');
  });

  test("names a list's elements by the first field that tells them apart", () => {
    const label = (name: string) => ({ mode: 'bidirectional', label: name, hits: name.length });
    const of = { arms: [label('llm-d'), label('dynamo')] };
    expect(evaluateAssertion(parseAssertion('arms.dynamo.hits == 6'), of).passed).toBe(true);
    expect(evaluateAssertion(parseAssertion('arms.dynami.hits == 6'), of).found).toMatch(
      /^arms has no element 'dynami': wanted one of llm-d, dynamo \(did you mean dynamo\?\)$/,
    );
  });

  test.each([
    [
      'comparison.ttft_speedup.mean >= 1',
      { comparison: null },
      /^comparison is null \(null if only one mode ran\)$/,
    ],
    [
      'runs.bidirectional.mode == "x"',
      { runs: [{ mode: 'bidirectionl' }] },
      /no element 'bidirectional'.*did you mean bidirectionl/,
    ],
    ['runs[4].mode == "x"', report, /^runs has no element 4: it has 2$/],
    ['config.treshold == 1', report, /^there is no 'treshold' in config: .*did you mean threshold/],
    ['model.name.x == 1', report, /^model.name is "recall", which has no fields$/],
    ['comparison >= 1', report, /^found a group of values, and >= compares numbers$/],
    ['comparison.first_disagreement > 1', report, /^found null, and > compares numbers$/],
    ['comparison.tokens_identical == 2 * model.name', report, /only a number can be multiplied/],
  ])('fails and says why if a value is missing or has the wrong type: %s', (text, of, found) => {
    const result = judge(text, of);
    expect(result.passed).toBe(false);
    expect(result.found).toMatch(found);
  });
});

describe('parsing an assertion', () => {
  test.each([
    ['', /its end is neither a path/],
    ['comparison.x', /its end is not an operator: wanted one of >=/],
    ['comparison.x = 1', /'=' is not an operator/],
    ['comparison.x => 1', /'=>' is not an operator/],
    ['comparison.x >= 1.5x', /'1.5x' is neither a path/],
    ['comparison.x >= 1 2', /'2' is left over/],
    ['comparison.x >= 1 && a == 2', /'&& a == 2' is left over/],
    ['comparison..x >= 1', /is not an operator/],
    ['1 < 2', /contains no path/],
    ['comparison.x == "open', /is neither a path/],
  ])('refuses %j', (text, expected) => {
    expect(() => parseAssertion(text)).toThrow(expected);
  });
});

describe('checking an assertion before the run', () => {
  const check = (text: string) => () => checkAssertion(parseAssertion(text), schema);

  test.each([
    'comparison.tokens_identical == true',
    'comparison.ttft_speedup.mean >= 1.5',
    'comparison.first_disagreement == null',
    'comparison.ttft_ms.mean.ratio >= 1.5',
    'comparison.max_logit_difference == 0',
    'runs.bidirectional.summary.pulled_tokens >= 64',
    'runs[0].turns[-1].stages_ms.anything < 5',
    'runs.length == 3',
    'config.whatever == "x"',
    'link == null',
    'integrity.leftover_blocks == 0',
    'machine.cores >= 2',
  ])('accepts %s', (text) => {
    expect(check(text)).not.toThrow();
  });

  test.each([
    [
      'comparison.token_identical == true',
      /there is no 'token_identical' in comparison: .*did you mean tokens_identical/,
    ],
    ['comparisons.x == 1', /there is no 'comparisons' in the report.*did you mean comparison/],
    ['runs.bidirectionl.mode == "x"', /runs has no element 'bidirectionl'.*did you mean bidirectional/],
    ['integrity.ok.really == true', /integrity.ok is a single value/],
    ['integrity == true', /integrity is a group: wanted one of integrity.ok/],
    [
      'comparison.tokens_identical >= 1',
      />= compares numbers, not comparison.tokens_identical \(boolean\) with 1/,
    ],
    [
      '2 * comparison.tokens_identical == 1',
      /tokens_identical \(boolean\) is multiplied, but it is not a number/,
    ],
    ['comparison.tokens_identical == 1', /can never be equal/],
    ["integrity.leftover_blocks == '0'", /can never be equal/],
    ['integrity.leftover_blocks == null', /can never be equal/],
  ])('refuses %s', (text, expected) => {
    expect(check(text)).toThrow(expected);
  });
});
