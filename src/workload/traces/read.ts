/** Reads a trace in any format, piece by piece: detects the format, and gives the requests in order. */
import { TRACE_FORMATS, type TraceFormat } from '../../config/trace-formats.ts';
import { ConfigError } from '../../errors.ts';
import { Random } from '../random.ts';
import type { BadLines } from './bad-lines.ts';
import { azure } from './formats/azure.ts';
import { bailian } from './formats/bailian.ts';
import { burstgpt } from './formats/burstgpt.ts';
import { conversations } from './formats/conversations.ts';
import { type FormatReader, isBad } from './formats/format.ts';
import { llmservingsim } from './formats/llmservingsim.ts';
import { mooncake } from './formats/mooncake.ts';
import { type Chunks, jsonObjects, lines, type Piece } from './text.ts';
import type { DrawnArrivals, TraceOrigin, TraceRequest } from './types.ts';

const readers: Readonly<Record<TraceFormat, FormatReader>> = {
  mooncake,
  bailian,
  azure,
  burstgpt,
  llmservingsim,
  conversations,
};

export interface ReadOptions {
  /** Name of the trace in messages. */
  source: string;
  /** null: detected from the beginning of the trace. */
  format: TraceFormat | null;
  /** Tokens that a hash id stands for; null: the format's default. */
  traceBlockSize: number | null;
  /** Most requests to read; null: all. */
  limit: number | null;
  countTokens(text: string): number;
  /** For conversations, which have no times: how many begin in a second, and the think time before each next turn. */
  untimed: DrawnArrivals & { seed: number };
  bad: BadLines;
}

export interface OpenTrace {
  format: TraceFormat;
  traceBlockSize: number;
  /** null: the trace has times of its own. */
  drawn: DrawnArrivals | null;
  requests: AsyncGenerator<TraceRequest>;
}

/** Characters that suffice to tell the formats apart. */
const HEAD = 1 << 16;

/** Reads the beginning. Throws ConfigError if the format is unknown. */
export async function openTrace(chunks: Chunks, options: ReadOptions): Promise<OpenTrace> {
  const iterator = chunks[Symbol.asyncIterator]();
  let head = '';
  let done = false;
  while (!done && head.length < HEAD) {
    const next = await iterator.next();
    done = next.done === true;
    head += next.value ?? '';
  }
  head = head.replace(/^\ufeff/, '');
  if (head.trim() === '') throw new ConfigError(`${options.source} is empty: wanted a trace`);
  const format = options.format ?? formatOf(head, options.source);
  const reader = readers[format];
  const traceBlockSize = options.traceBlockSize ?? reader.traceBlockSize;
  if (reader.unit === 'object') options.bad.unit = 'conversation';
  async function* allText(): AsyncGenerator<string> {
    yield head;
    if (!done) yield* { [Symbol.asyncIterator]: () => iterator };
  }
  const pieces =
    reader.unit === 'line' ? lines(allText(), options.source) : jsonObjects(allText(), options.source);
  const { perSecond, thinkMs } = options.untimed;
  const drawn = reader.unit === 'object' ? { perSecond, thinkMs } : null;
  return {
    ...{ format, traceBlockSize, drawn },
    requests: requestsOf(pieces, reader, { ...options, traceBlockSize }),
  };
}

/** Detects the format from the beginning, mostly from the first line. */
function formatOf(head: string, source: string): TraceFormat {
  const text = head.trimStart();
  const first = text.split('\n', 1)[0]!;
  const headings = first.replaceAll('"', '');
  if (/^timestamp\s*,\s*contexttokens/i.test(headings)) return 'azure';
  if (/^timestamp\s*,.*request tokens/i.test(headings)) return 'burstgpt';
  if (text.includes('"generate_conversations"'))
    throw new ConfigError(
      `${source} describes conversations to generate, but a trace lists requests: use it with kvferry bench`,
    );
  if (/"(?:messages|conversations)"\s*:\s*\[/.test(text)) return 'conversations';
  if (/"(?:parent_)?chat_id"\s*:/.test(first)) return 'bailian';
  if (/"(?:input_toks|arrival_time_ns)"\s*:/.test(first)) return 'llmservingsim';
  if (/"(?:input_length|input_tokens|hash_ids)"\s*:/.test(first)) return 'mooncake';
  throw new ConfigError(
    `${source} is in no known trace format: it begins with ${JSON.stringify(first.slice(0, 40))}; wanted one of ${TRACE_FORMATS.join(', ')}; name it with --trace-format`,
  );
}

async function* requestsOf(
  pieces: AsyncIterable<Piece>,
  reader: FormatReader,
  options: ReadOptions & { traceBlockSize: number },
): AsyncGenerator<TraceRequest> {
  const { bad, untimed, limit } = options;
  const random = new Random(untimed.seed);
  let firstMs: number | null = null;
  let drawnMs = 0;
  let index = 0;
  for await (const { text, place } of pieces) {
    const parsed = reader.parse(text, options);
    if (isBad(parsed)) {
      bad.refuse(place, parsed.bad);
      continue;
    }
    // Conversations have no times, and names may occur twice: each is a session that begins at a drawn time.
    const drawn = reader.unit === 'object';
    if (drawn && index > 0) drawnMs += random.exponential(1000 / untimed.perSecond);
    const session: TraceOrigin = { kind: 'session', id: `conversation-${place}`, delayMs: untimed.thinkMs };
    for (const [turn, raw] of parsed.entries()) {
      const { timeMs, answeredMs = null, inputTokens, outputTokens, hashIds } = raw;
      if (timeMs !== null) firstMs ??= timeMs;
      const arrivalMs = timeMs === null ? null : timeMs - firstMs!;
      yield {
        index,
        line: place,
        arrivalMs: drawn ? (turn === 0 ? drawnMs : null) : arrivalMs,
        answeredMs,
        inputTokens,
        outputTokens,
        hashIds,
        origin: drawn ? session : raw.origin,
      };
      index++;
      // What follows the last request is not read: it may be broken.
      if (index === limit) return;
    }
  }
}
