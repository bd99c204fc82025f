/** `kvferry trace`: describes a trace, or converts it to Mooncake's format. */
import type { RunConfig } from '../../config/run.ts';
import { ConfigError } from '../../errors.ts';
import { plural } from '../../measure/format.ts';
import { MOONCAKE_BLOCK } from '../../workload/traces/formats/mooncake.ts';
import { describeScale } from '../../workload/traces/scale.ts';
import { TraceMeter } from '../../workload/traces/summary.ts';
import { TurnMaker } from '../../workload/traces/turns.ts';
import { MooncakeWriter } from '../../workload/traces/write.ts';
import { type CommandContext, EXIT, type ExitCode } from '../deps.ts';
import type { CommandInput, CommandSpec } from '../options/arguments.ts';
import { refuseUnused } from '../options/unused-options.ts';
import { textOutput, writeJson } from '../output/json-option.ts';
import { checkFiles, keepInputs } from '../output/outputs.ts';
import { printer } from '../output/table.ts';
import { type Given, openNamedTrace } from '../trace/open.ts';
import { lengthTable, traceSentences } from '../trace/table.ts';

export const traceSpec: CommandSpec = {
  usage: 'trace <what> <file> [out]',
  run: trace,
  description:
    "Describe a trace of requests (info FILE), or convert it to Mooncake's format (convert FILE OUT), optionally scaled. A .gz FILE is decompressed while it is read.",
  groups: ['trace', 'pacing', 'general'],
  // The file is a positional argument here.
  refuses: ['trace'],
  examples: [
    'kvferry trace info conversation_trace.jsonl',
    'kvferry trace convert AzureLLMInferenceTrace_conv.csv azure.jsonl --limit 1000',
    'kvferry trace convert sharegpt.json sharegpt.jsonl --conversation-rate 0.5 --think-time 10s',
  ],
};

async function trace(
  config: RunConfig,
  context: CommandContext,
  { args, given, files }: CommandInput,
): Promise<ExitCode> {
  refuseUnused(given, [{ keys: ['trace'], why: 'in kvferry trace, whose FILE follows info or convert' }]);
  const [what, file, out] = args;
  const wanted = 'wanted trace info FILE or trace convert FILE OUT';
  if (what === undefined) throw new ConfigError(`trace has no action: ${wanted}`);
  if (what !== 'info' && what !== 'convert') throw new ConfigError(`there is no 'trace ${what}': ${wanted}`);
  if (file === undefined) throw new ConfigError(`no trace is given: wanted kvferry trace ${what} FILE`);
  const named = { ...config, trace: file };
  await keepInputs(named, context.deps, []);
  if (what === 'info') {
    if (out !== undefined) throw new ConfigError(`trace info writes no file: leave '${out}' out`);
    refuseUnused(given, [
      { keys: ['traceScale', 'speedUp'], why: 'in trace info, which describes a trace unchanged' },
    ]);
    return info(named, context, given);
  }
  if (out === undefined)
    throw new ConfigError('trace convert has no output file: wanted trace convert FILE OUT');
  const { deps } = context;
  const id = await deps.plainFileId(file);
  if (id !== null && id === (await deps.plainFileId(out)))
    throw new ConfigError(
      `'${out}' is the input trace, which is read while the output is written: name another file`,
    );
  await keepInputs(named, deps, files, { OUT: out });
  return convert(named, out, context, given);
}

async function info(config: RunConfig, { deps, signal }: CommandContext, given: Given): Promise<ExitCode> {
  const { format, requests, scale, bad, source } = await openNamedTrace(config, deps, given);
  const maker = new TurnMaker({ scale, maxModelLen: null, bad });
  const meter = new TraceMeter();
  for await (const request of requests) {
    signal.throwIfAborted();
    const turn = maker.next(request);
    if (turn) meter.add(turn, request);
  }
  if (meter.requests === 0) throw new ConfigError(`${source} has no usable request`);
  const summary = meter.summary();
  const { print, say, style } = printer(textOutput(config, deps), deps.color);
  say(`${source}: ${format}, ${scale.traceBlockSize} tokens a block.`);
  print(['', ...lengthTable(summary, style), '']);
  for (const sentence of traceSentences(summary, format)) say(sentence);
  const skipped = bad.describe();
  if (skipped) say(skipped);
  const head = { format, trace_block_size: scale.traceBlockSize, bad_lines: bad.count };
  await writeJson({ source, ...head, ...summary }, config, deps);
  return EXIT.good;
}

async function convert(
  config: RunConfig,
  out: string,
  { deps, signal }: CommandContext,
  given: Given,
): Promise<ExitCode> {
  await checkFiles(config, deps, { OUT: out });
  const { requests, scale, drawn, bad, source } = await openNamedTrace(config, deps, given);
  const maker = new TurnMaker({ scale, maxModelLen: null, bad });
  const writer = new MooncakeWriter(scale);
  const file = await deps.createTextFile(out);
  let written = 0;
  try {
    for await (const request of requests) {
      signal.throwIfAborted();
      const turn = maker.next(request);
      if (!turn) continue;
      file.write(writer.line(turn, request));
      await file.drained();
      written++;
    }
    if (written === 0) throw new ConfigError(`${source} has no usable request`);
  } catch (error) {
    // A truncated trace would look like a complete one.
    await file.discard();
    throw error;
  }
  await file.close();
  const { say } = printer(textOutput(config, deps), deps.color);
  const blockSize = writer.blockSize;
  say(
    `wrote ${plural(written, 'request')} to ${out}; each hash id stands for ${blockSize} tokens. ${describeScale(scale, drawn, config.limit)}`,
  );
  if (blockSize !== MOONCAKE_BLOCK)
    say(`To read it, give --trace-block-size ${blockSize}; without it, ${MOONCAKE_BLOCK} is assumed.`);
  const skipped = bad.describe();
  if (skipped) say(skipped);
  await writeJson(
    { source, out, requests: written, trace_block_size: blockSize, bad_lines: bad.count },
    config,
    deps,
  );
  return EXIT.good;
}
