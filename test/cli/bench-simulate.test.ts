import { expect, it } from 'vitest';
import { readTurns } from '../../src/cli/bench/simulate/turns.ts';
import { ConfigError } from '../../src/errors.ts';

it('a trace that cannot be read is refused with the message that every command uses', async () => {
  const reading = readTurns('./nowhere/trace.jsonl', null);
  await expect(reading).rejects.toThrow(ConfigError);
  await expect(reading).rejects.toThrow('cannot read ./nowhere/trace.jsonl: there is no such file');
});
