/** `kvferry bench`: vLLM's multi-turn benchmark in each mode, in alternating rounds. */
import type { RunConfig } from '../../config/run.ts';
import { ownChecksPass } from '../../report/checks.ts';
import { type CommandContext, EXIT, type ExitCode } from '../deps.ts';
import { benchEngines } from '../multiturn/cluster-bench.ts';
import { benchServer } from '../multiturn/endpoint-bench.ts';
import { printBench } from '../multiturn/output.ts';
import { benchDefaults, checkBench } from '../multiturn/settings.ts';
import type { CommandInput, CommandSpec } from '../options/arguments.ts';
import { linksOf } from '../options/settings.ts';
import { refuseUnused, refuseUnusedRouting, unusedByBench } from '../options/unused-options.ts';
import { textOutput } from '../output/json-option.ts';
import { prepareOutputs } from '../output/outputs.ts';

export const benchSpec: CommandSpec = {
  usage: 'bench [file]',
  run: bench,
  description:
    "Run vLLM's multi-turn benchmark in each mode, in alternating rounds. Compare the modes request by request: what pulling D's KV back gains and costs.",
  groups: [
    'bench',
    'ways',
    'slo',
    'measuring',
    'modes',
    'machine',
    'fleet',
    'cluster',
    'store',
    'routing',
    'explaining',
    'costs',
    'audit',
    'sampling',
    'endpoint',
    'pages',
    'junit',
    'asserting',
    'comparing',
    'general',
  ],
  argument: 'inputFile',
  lists: ['link'],
  defaults: benchDefaults,
  defaultNotes: {
    model: "tiny; the server's first model with --endpoint",
    mode: 'unidirectional, bidirectional, decode-local',
    pBlocks: 'room for all active conversations',
    dBlocks: 'room for all active conversations',
    threshold: '64, divided by --scale',
    rounds: '3, or as many as fit into --budget; 1 with --endpoint',
    link: 'none; with --paths none and 20e6,10ms',
    store: 'none; with --paths 128MiB',
    storePlace: 'local; with --paths remote',
  },
  examples: [
    'kvferry bench --preset pr32553 --scale 1/16 --budget 10m',
    'kvferry bench --paths --budget 10m --link none,20e6,10ms',
    'kvferry bench generate_multi_turn.json --scale 1/16 --num-clients 2 --budget 10m',
    'kvferry bench --endpoint http://localhost:8000 --tokenizer tiny',
  ],
};

async function bench(
  config: RunConfig,
  context: CommandContext,
  { lists, given }: CommandInput,
): Promise<ExitCode> {
  const links = linksOf(lists);
  checkBench(config, links.length);
  refuseUnused(given, unusedByBench(config));
  await refuseUnusedRouting(given, config);
  const { deps, signal } = context;
  const remote = config.endpoint !== null || config.url !== null;
  const model = remote ? null : (await deps.backend.architecture(config.model)).name;
  const outputs = await prepareOutputs(config, 'bench', model, deps);
  const report = remote ? await benchServer(config, context) : await benchEngines(config, links, context);
  printBench(report, textOutput(config, deps), deps.color);
  const asserted = await outputs.finish(report);
  if (signal.aborted) return EXIT.interrupted;
  return ownChecksPass(report) ? asserted : EXIT.failed;
}
