/**
 * `--assert`: a comparison between a path into a JSON report and a value or another path. Parses the expression, checks it
 * against the report's schema before the work, and evaluates it on the finished report. Pure; prints nothing.
 */
import type { z } from 'zod';
import { ConfigError } from '../../errors.ts';
import { baselineSchema } from './baseline.ts';
import { checkPath, followPath, type PathSchema, pathSchema, type Step, showPath } from './report-paths.ts';

const OPERATORS = ['>=', '<=', '==', '!=', '>', '<'] as const;
type Operator = (typeof OPERATORS)[number];
type Scalar = number | boolean | string | null;

/** A path, optionally with a factor: `0.9 * baseline.report.…`. */
type Operand =
  | { kind: 'value'; value: Scalar }
  | { kind: 'path'; steps: readonly Step[]; factor: number | null };

export interface Assertion {
  /** As the user wrote it. */
  text: string;
  left: Operand;
  operator: Operator;
  right: Operand;
}

export interface AssertionResult {
  text: string;
  passed: boolean;
  /** What was found, such as 'found 1.21', or why nothing was. */
  found: string;
}

const EXAMPLE = "'comparison.tokens_identical == true'";

/** Throws ConfigError if the text is not a comparison. */
export function parseAssertion(text: string): Assertion {
  const reader = new Reader(text);
  const left = reader.operand();
  const operator = reader.operator();
  const right = reader.operand();
  reader.end();
  if (left.kind === 'value' && right.kind === 'value')
    reader.refuse(`it contains no path into the report: wanted one, such as ${EXAMPLE}`);
  return { text, left, operator, right };
}

/** Literal words; all other words are paths. */
const WORDS: Readonly<Record<string, Scalar>> = { true: true, false: false, null: null };

class Reader {
  readonly #text: string;
  #at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  refuse(problem: string): never {
    throw new ConfigError(`the assertion '${this.#text}' cannot be read: ${problem}`);
  }

  operand(): Operand {
    const quoted = this.#take(/"([^"]*)"|'([^']*)'/y);
    if (quoted) return { kind: 'value', value: quoted[1] ?? quoted[2] ?? '' };
    const number = this.#take(/[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?(?![\w.])/y);
    if (number && !this.#take(/\*/y)) return { kind: 'value', value: Number(number[0]) };
    const factor = number ? Number(number[0]) : null;
    const first = this.#take(/[A-Za-z_][\w-]*/y, true);
    if (!first)
      this.refuse(`${this.#here()} is neither a path nor a value: wanted something such as ${EXAMPLE}`);
    const steps: Step[] = [first[0]];
    for (let more = this.#step(); more !== null; more = this.#step()) steps.push(more);
    const word = WORDS[first[0]];
    if (steps.length === 1 && word !== undefined && factor === null) return { kind: 'value', value: word };
    return { kind: 'path', steps, factor };
  }

  operator(): Operator {
    const found = this.#take(/[<>=!]+/y);
    const operator = OPERATORS.find((known) => known === found?.[0]);
    if (operator) return operator;
    return this.refuse(
      `${found ? `'${found[0]}'` : this.#here()} is not an operator: wanted one of ${OPERATORS.join(' ')}, as in ${EXAMPLE}`,
    );
  }

  end(): void {
    if (!this.#take(/$/y))
      this.refuse(`${this.#here()} is left over: wanted one comparison, such as ${EXAMPLE}`);
  }

  #step(): Step | null {
    const name = this.#take(/\.([\w-]+)/y, true);
    if (name) return name[1]!;
    const place = this.#take(/\[(-?\d+)\]/y, true);
    if (place) return Number(place[1]);
    const quoted = this.#take(/\["([^"]*)"\]|\['([^']*)'\]/y, true);
    return quoted ? (quoted[1] ?? quoted[2]!) : null;
  }

  /** Takes a match. Skips leading spaces, unless it must follow immediately or begins a path. */
  #take(pattern: RegExp, joined = false): RegExpExecArray | null {
    const start = this.#at;
    if (!joined || !/[\w\])]/.test(this.#text[this.#at - 1] ?? ' ')) {
      while (this.#text[this.#at] === ' ') this.#at++;
    }
    pattern.lastIndex = this.#at;
    const match = pattern.exec(this.#text);
    this.#at = match ? pattern.lastIndex : start;
    return match;
  }

  #here(): string {
    const rest = this.#text.slice(this.#at).trim();
    return rest === '' ? 'its end' : `'${rest}'`;
  }
}

/** The schema that assertions are checked against: the report's, plus the comparison with --baseline. */
export function assertionSchema(report: z.ZodType, withBaseline: boolean): PathSchema {
  const schema = pathSchema(report);
  if (!withBaseline) return schema;
  const baseline = pathSchema(baselineSchema);
  const withReport = { ...baseline, properties: { ...baseline.properties, report: schema } };
  return { ...schema, properties: { ...schema.properties, baseline: withReport } };
}

/** Throws ConfigError if no report of this schema can have the paths, or if the values cannot be compared. */
export function checkAssertion(assertion: Assertion, schema: PathSchema): void {
  const refuse = (problem: string): never => {
    throw new ConfigError(`the assertion '${assertion.text}' cannot hold: ${problem}`);
  };
  const typesOf = (operand: Operand): readonly string[] => {
    if (operand.kind === 'value') return [operand.value === null ? 'null' : typeof operand.value];
    const checked = checkPath(schema, operand.steps);
    if ('problem' in checked) return refuse(checked.problem);
    if (operand.factor === null) return checked.types;
    if (!checked.types.includes('number') && !checked.types.includes('anything'))
      refuse(
        `${showPath(operand.steps)} (${checked.types.join(' or ')}) is multiplied, but it is not a number`,
      );
    return ['number'];
  };
  const left = typesOf(assertion.left);
  const right = typesOf(assertion.right);
  if (left.includes('anything') || right.includes('anything')) return;
  const shown = (operand: Operand, types: readonly string[]): string =>
    operand.kind === 'value'
      ? JSON.stringify(operand.value)
      : `${showPath(operand.steps)} (${types.join(' or ')})`;
  const sides = `${shown(assertion.left, left)} with ${shown(assertion.right, right)}`;
  const isOrder = assertion.operator !== '==' && assertion.operator !== '!=';
  if (isOrder && !(left.includes('number') && right.includes('number')))
    refuse(`${assertion.operator} compares numbers, not ${sides}`);
  if (!left.some((type) => right.includes(type))) refuse(`${sides} can never be equal`);
}

/** Never throws. A path that the report lacks is a failed assertion. */
export function evaluateAssertion(
  assertion: Assertion,
  report: unknown,
  schema?: PathSchema,
): AssertionResult {
  const { text, operator } = assertion;
  const left = valued(assertion.left, report, schema);
  const right = valued(assertion.right, report, schema);
  const problem = left.problem ?? right.problem;
  if (problem !== null) return { text, passed: false, found: problem };
  const found = `found ${[left, right].flatMap(({ shown }) => shown ?? []).join(' and ')}`;
  const passed = compare(left.value, operator, right.value);
  if (passed === null) return { text, passed: false, found: `${found}, and ${operator} compares numbers` };
  return { text, passed, found };
}

interface Valued {
  value: unknown;
  /** null for a literal value. */
  shown: string | null;
  problem: string | null;
}

function valued(operand: Operand, report: unknown, schema?: PathSchema): Valued {
  if (operand.kind === 'value') return { value: operand.value, shown: null, problem: null };
  const followed = followPath(report, operand.steps, schema);
  if (!followed.found) return { value: null, shown: null, problem: followed.problem };
  const { value } = followed;
  if (operand.factor === null) return { value, shown: show(value), problem: null };
  if (typeof value !== 'number') {
    return {
      value,
      shown: null,
      problem: `${showPath(operand.steps)} is ${show(value)}: only a number can be multiplied`,
    };
  }
  return { value: operand.factor * value, shown: `${operand.factor} * ${show(value)}`, problem: null };
}

/** null if the two cannot be ordered. */
function compare(left: unknown, operator: Operator, right: unknown): boolean | null {
  if (operator === '==') return left === right;
  if (operator === '!=') return left !== right;
  if (typeof left !== 'number' || typeof right !== 'number') return null;
  return { '>=': left >= right, '<=': left <= right, '>': left > right, '<': left < right }[operator];
}

/** Numbers with at most six significant digits. */
function show(value: unknown): string {
  if (typeof value === 'number')
    return String(Number.isInteger(value) ? value : Number(value.toPrecision(6)));
  if (Array.isArray(value)) return `a list of ${value.length}`;
  if (typeof value === 'object' && value !== null) return 'a group of values';
  return JSON.stringify(value) ?? 'nothing';
}
