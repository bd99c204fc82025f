/** --assert and --junit of simulations and plans. */
import { describe, expect, it } from 'vitest';
import { main } from '../../src/cli/app.ts';
import { generator } from '../workload/generator.ts';
import { fakeWorld } from './fake.ts';

const workload = generator({ conversations: 6, turns: 2, prefix: 100, input: 20, output: 10 });

async function kvferry(...argv: string[]) {
  const world = fakeWorld({}, { 'w.json': JSON.stringify(workload) });
  return { code: await main(argv, world.deps), world };
}

const TWO = ['simulate', 'w.json', '--mode', 'bidirectional', '--routing', 'round-robin,prefix-cache'];

describe('an assertion on a simulation', () => {
  it('names the arms as the report does, and is printed with what was found', async () => {
    const { code, world } = await kvferry(
      ...[...TWO, '--decode', '2', '--arrival-rate', '5', '--junit', 'j.xml'],
      ...['--assert', "arms.prefix-cache.verdict.word == 'STABLE'"],
      ...['--assert', 'arms.prefix-cache.requests < arms.round-robin.requests'],
    );
    expect(code).toBe(3);
    expect(world.out()).toMatch(/\nok {6}arms\.prefix-cache\.verdict\.word == 'STABLE': found "STABLE"\n/);
    expect(world.out()).toMatch(/\nFAILED {2}arms\..*: found 6 and 6\n/);
    expect(world.out()).toContain('1 of 2 assertions failed.');
    const junit = world.files.get('j.xml')!;
    expect(junit).toContain('<testsuites name="kvferry simulate" tests="4" failures="1" errors="0">');
    expect(junit).toContain('name="prefix-cache serves requests"');
  });

  it('is good if it holds', async () => {
    const { code, world } = await kvferry(...TWO, '--assert', 'arms.length == 2');
    expect(code).toBe(0);
    expect(world.out()).toContain('The assertion holds.');
  });

  it('that no report can satisfy is refused before anything is simulated', async () => {
    const { code, world } = await kvferry(...TWO, '--assert', 'arms.prefix-cache.tft_ms.p90 < 5');
    expect(code).toBe(2);
    expect(world.err()).toMatch(/there is no 'tft_ms' in arms\.prefix-cache: .*\(did you mean ttft_ms\?\)/);
    expect(world.out()).toBe('');
  });
});

it('a plan takes assertions too, but without a fleet that keeps the SLO it fails, whatever was asserted', async () => {
  const plan = ['plan', 'w.json', '--sample', '40', '--rate', '4', '--routing', 'round-robin', '--jobs', '1'];
  const few = ['--assert', 'chosen.prefill <= 2', '--assert', 'chosen.decode == 0'];
  const { code, world } = await kvferry(...plan, '--slo-ttft', '100ms', ...few);
  expect(world.out()).toContain('1 of 2 assertions failed.');
  expect(code).toBe(3);
  const none = ['--slo-ttft', '1ms', '--junit', 'j.xml', '--assert', 'simulations > 0'];
  const failed = await kvferry(...plan, ...none);
  expect(failed.code).toBe(1);
  expect(failed.world.files.get('j.xml')).toContain(
    '<failure message="no fleet that was tried does" type="failed">a fleet meets the SLO',
  );
});
