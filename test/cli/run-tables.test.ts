import { expect, it } from 'vitest';
import { plainStyle } from '../../src/cli/output/table.ts';
import { modeSentence, turnTable } from '../../src/cli/run/run-tables.ts';
import type { RoutingReport } from '../../src/measure/schemas/report.ts';
import { runReport } from '../report/reports.ts';

const decision: RoutingReport = {
  ...{ policy: 'round-robin', prefill: 'prefill-0', decode: 'decode-0', load: 'decode-0', why: '' },
  ...{ way: 'pull', predicted_ttft_ms: null, decided_in_ms: 0, candidates: [] },
};

it('says why a turn pulled nothing, also where one engine served it or the turn before', async () => {
  const bidirectional = (await runReport()).runs.at(-1)!;
  const remarks = (routing: Partial<RoutingReport>): string => {
    const turns = bidirectional.turns.map((turn) => ({
      ...turn,
      ...{ pulled_tokens: 0, no_pull_reason: null, routing: { ...decision, ...routing } },
    }));
    return turnTable({ ...bidirectional, turns: turns.slice(1, 2) }, plainStyle).join('\n');
  };
  expect(remarks({})).toContain('pulled nothing: D offered nothing beyond what P had');
  expect(remarks({ load: null })).toContain('pulled nothing: P was offered no KV of the turn before');
  expect(remarks({ way: 'alone', prefill: null, load: null })).toContain(
    'pulled nothing: one engine served this turn alone',
  );
});

it('says of a mode what the engines did, with any connector and fleet', async () => {
  const { runs, config } = await runReport();
  const bidirectional = runs.at(-1)!;
  expect(modeSentence(bidirectional, config)).toContain("P pulls D's KV back");
  const stored = { ...config, kvTransferConfig: { kv_connector: 'OffloadingConnector', kv_role: 'kv_both' } };
  expect(modeSentence(bidirectional, stored)).toContain('through the store only');
  const turns = bidirectional.turns.map((turn) => ({
    ...turn,
    routing: { ...decision, way: 'alone' as const },
  }));
  expect(modeSentence({ ...bidirectional, turns }, config)).toContain('one engine that does both');
});
