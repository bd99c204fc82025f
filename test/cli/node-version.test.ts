import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { nodeTooOld, OLDEST_NODE } from '../../src/platform/node/version.ts';

describe('the version of Node', () => {
  it('is the one package.json asks for', () => {
    const { engines } = JSON.parse(readFileSync('package.json', 'utf8')) as { engines: { node: string } };
    expect(engines.node).toBe(`>=${OLDEST_NODE}`);
  });

  it.each(['20.19.0', '20.20.1', '22.0.0', '24.1.0', '100.0.0'])('%s will do', (version) => {
    expect(nodeTooOld(version)).toBeNull();
  });

  it.each(['18.20.8', '20.18.3', '9.20.0'])('%s is too old, and the message names both', (version) => {
    expect(nodeTooOld(version)).toContain(
      `this is Node ${version}, and kvferry needs Node ${OLDEST_NODE} or newer`,
    );
  });
});
