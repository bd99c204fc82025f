/** What --help prints for every command. */
import { beforeAll, describe, expect, test } from 'vitest';
import { main } from '../../src/cli/app.ts';
import type { CommandSpec } from '../../src/cli/options/arguments.ts';
import { commandLines, WIDTH } from '../../src/cli/output/format.ts';
import { fieldMeta, runKeys, switchName } from '../../src/config/run.ts';
import { fakeWorld, widest } from './fake.ts';

async function help(...words: string[]): Promise<string> {
  const world = fakeWorld();
  expect(await main([...words, '--help'], world.deps)).toBe(0);
  return world.out();
}

/** Joins continued lines as a shell does. */
const joined = (lines: string): string => lines.replace(/ \\\n */g, ' ');

describe('help', () => {
  const specs = new Map<string, CommandSpec>();
  beforeAll(async () => {
    for (const [, name] of (await help()).matchAll(/^ {2}([a-z]+)/gm)) {
      const loaded: Record<string, CommandSpec> = await import(`../../src/cli/commands/${name}.ts`);
      specs.set(name!, loaded[`${name}Spec`]!);
    }
    expect(specs.size).toBeGreaterThan(10);
  });

  test.each([[['help', 'rum']], [['rum', '--help']]])(
    'of a command that does not exist is an error: %j',
    async (words) => {
      const world = fakeWorld();
      expect(await main(words, world.deps)).toBe(2);
      expect(world.err()).toMatch(/^kvferry: there is no command 'rum': .* \(did you mean run\?\)\n$/);
    },
  );

  test.each([[[]], [['simulate']]])('is also printed by the help command: help %j', async (words) => {
    const world = fakeWorld();
    expect(await main(['help', ...words], world.deps)).toBe(0);
    expect(world.out()).toBe(await help(...words));
  });

  test('names no default that the command does not have', async () => {
    const text = async (name: string) => (await help(name)).replace(/\s+/g, ' ');
    for (const name of ['simulate', 'plan'])
      expect(await text(name)).not.toMatch(
        /as this machine copies|at most 8192|quick calibration|in one thread/,
      );
    for (const name of ['simulate', 'export']) expect(await text(name)).not.toContain('only by POST');
    expect(await text('export')).not.toContain('if no FILE is given');
    expect(await text('sweep')).toMatch(/--mode .* others are refused\./);
    expect(await text('store')).toContain('the redis:// URL of its server');
    expect(await help()).toMatch(/kvferry help <command>.*\n.*--version \(-v\)/);
  });

  test.each(['trace', 'replay', 'simulate', 'plan'])(
    'for %s says that compressed traces are read',
    async (name) => {
      expect(await help(name)).toMatch(/\.gz\b/);
    },
  );

  test('fits 80 columns for every command, with each section once', async () => {
    expect(widest(await help())).toBeLessThanOrEqual(WIDTH);
    for (const name of specs.keys()) {
      const text = await help(name);
      expect(widest(text), name).toBeLessThanOrEqual(WIDTH);
      const titles = text.match(/^[A-Z].*:$/gm)!;
      expect(new Set(titles).size, name).toBe(titles.length);
    }
  });

  test('has no section without options, and states one default for an option', async () => {
    for (const [name, { defaultNotes = {} }] of specs) {
      const text = await help(name);
      expect(text, name).not.toMatch(/:\n\n/);
      for (const option of text.split(/^ {2}(?=-)/m).slice(1))
        expect(option.match(/\bDefault\b/g)?.length ?? 0, `${name} ${option}`).toBeLessThanOrEqual(1);
      for (const [key, note] of Object.entries(defaultNotes))
        expect(text.replace(/\s+/g, ' '), `${name} ${key}`).toContain(`Default for this command: ${note}.`);
    }
  });

  test('lists the options and examples of every command, and every option for at least one command', async () => {
    const seen = new Set<string>();
    for (const [name, { groups, examples, refuses = [] }] of specs) {
      const text = await help(name);
      for (const key of runKeys.filter((each) => groups.includes(fieldMeta(each).group))) {
        const line = new RegExp(`^  ${switchName(key)}(?: |$)`, 'm');
        if (refuses.includes(key)) expect(text).not.toMatch(line);
        else expect(text).toMatch(line);
        if (!refuses.includes(key)) seen.add(key);
      }
      for (const option of ['--config <FILE>', '-h, --help']) expect(text).toContain(`\n  ${option}`);
      expect(examples.length).toBeGreaterThan(0);
      for (const example of examples) expect(joined(text)).toContain(`\n  ${example}\n`);
    }
    expect(runKeys.filter((key) => !seen.has(key))).toEqual([]);
  });
});

const planning = ['plan', '--slo-ttft', '1s', '--rate', '1'];

test.each([
  [planning, '--num-clients', '3'],
  [planning, '--warmup-percentages', '50%'],
  [planning, '--adapter', 'gpu'],
  [planning, '--budget', '1m'],
  [planning, '--experiments', 'eviction'],
  [['replay', 't.jsonl'], '--max-tokens', '5'],
  [['replay', 't.jsonl'], '--top-k', '5'],
  [['trace', 'info', 't.jsonl'], '--trace', 't.jsonl'],
])('%j always refuses %s, so its help does not list it', async (words, option, value) => {
  expect(await main([...words, option, value], fakeWorld().deps)).toBe(2);
  expect(await help(words[0]!)).not.toMatch(new RegExp(`^  ${option}(?: |$)`, 'm'));
});

describe('a printed command', () => {
  test('is one line if it fits', () => {
    expect(commandLines('kvferry run --turns 3')).toEqual(['  kvferry run --turns 3']);
  });

  test('is broken between options if it does not fit, and reads back unchanged', () => {
    const command =
      'kvferry simulate w.json --routing round-robin,prefix-cache --kv-transfer-config \'{"kv_connector": "NixlConnector"}\' --check';
    expect(commandLines(command)).toEqual([
      '  kvferry simulate w.json --routing round-robin,prefix-cache \\',
      '      --kv-transfer-config \'{"kv_connector": "NixlConnector"}\' --check',
    ]);
    expect(joined(commandLines(command).join('\n'))).toBe(`  ${command}`);
  });

  test('is broken before a value that does not fit next to its option, but never within quotes', () => {
    const [name, value] = [`--${'n'.repeat(40)}`, `'${'v '.repeat(20)}'`];
    expect(commandLines(`kvferry run --check ${name} ${value}`)).toEqual([
      '  kvferry run --check \\',
      `      ${name} \\`,
      `      ${value}`,
    ]);
  });

  test('has a word that is longer than a line on a line of its own', () => {
    const word = 'w'.repeat(90);
    expect(commandLines(`kvferry run --model ${word} --check`)).toEqual([
      '  kvferry run \\',
      '      --model \\',
      `      ${word} \\`,
      '      --check',
    ]);
  });
});

test('help gives the default modes of the command in question', async () => {
  const ofMode = async (command: string) =>
    / +--mode <MODES> +([\s\S]*?)\n(?: {2}--|\n)/
      .exec(await help(command))![1]!
      .replace(/\s+/g, ' ')
      .trim();
  const all = 'Comma-separated: monolithic, unidirectional, bidirectional, decode-local.';
  const later = 'decode-local: D prefills later turns itself.';
  expect(await ofMode('run')).toBe(`${all} ${later} (monolithic, unidirectional, bidirectional)`);
  expect(await ofMode('serve')).toBe(`${all} ${later} Default for this command: bidirectional.`);
});

test.each([
  ['sweep', '--threshold', '0, 64'],
  ['sweep', '--rounds', '5'],
  ['calibrate', '--threshold', '64'],
])('help of %s gives the default of %s', async (command, option, value) => {
  const text = (await help(command)).split(`\n  ${option} `)[1]!.split(/\n {2}-/)[0]!;
  expect(text.replace(/\s+/g, ' ')).toContain(`Default for this command: ${value}.`);
});

test('help shows a default number of bytes as it would be typed', async () => {
  const world = fakeWorld();
  expect(await main(['serve', '--help'], world.deps)).toBe(0);
  expect(world.out()).toContain('(1GiB)');
  expect(world.out()).not.toContain('1073741824');
});
