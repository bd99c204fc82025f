/**
 * Turns the requests of a trace into the turns that are served: which one follows which, when it arrives, and what its
 * prompt contains.
 * Where a file does not name the turn that a request follows, it is found by content. The request's prompt must begin
 * with all full blocks of the earlier prompt, at least two, and be longer than that prompt and its answer together. A
 * request is followed once. Of several candidates the one with the most full blocks is taken, then the latest.
 */
import { ConfigError } from '../../errors.ts';
import type { BadLines } from './bad-lines.ts';
import { answerTo, freshPrompt, HashedContent, type Held } from './content.ts';
import { prefixHashes } from './prefix-hashes.ts';
import { checkScale, scaledBlock, scaledLengths } from './scale.ts';
import { sliceSegments } from './tokens.ts';
import type { TraceArrival, TraceRequest, TraceScale, TraceTurn } from './types.ts';

/** The first block is often a prompt that all requests share: alone it proves nothing. */
const LEAST_FULL_BLOCKS = 2;
/** Requests that can still be followed, of a session the last; beyond these the oldest is forgotten. */
const MOST_REMEMBERED = 1 << 18;

interface Earlier extends Held {
  index: number;
  line: number;
  conversationId: string;
  turn: number;
  arrivalMs: number | null;
  answeredMs: number | null;
  /** End of prompt and answer, in the trace's own lengths. */
  endTokens: number;
  /** Hash of its full blocks; null without hash ids or full blocks. */
  chain: number | null;
  /** Key under which it is found: a session's or a chat's name, or its chain. */
  place: string | number;
  /** A turn follows it already: another one that does begins a conversation of its own. */
  followed: boolean;
}

export interface TurnOptions {
  scale: TraceScale;
  /** Most tokens of a prompt and its answer, scaled; null: no limit. */
  maxModelLen: number | null;
  bad: BadLines;
}

/** Stateful: give it a trace's requests in order. Throws ConfigError for what cannot be served. */
export class TurnMaker {
  readonly #options: TurnOptions;
  readonly #mostRemembered: number;
  readonly #content: HashedContent;
  readonly #byChain = new Map<number, SameBlocks>();
  readonly #byName = new Map<string, Earlier>();
  /** By index, oldest first, for forgetting. */
  readonly #remembered = new Map<number, Earlier>();
  /** No index in #remembered is lower. */
  #oldest = 0;
  /** Latest arrival so far of a request outside a known session. */
  #lastMs = 0;

  constructor(options: TurnOptions, mostRemembered: number = MOST_REMEMBERED) {
    checkScale(options.scale);
    this.#options = options;
    this.#mostRemembered = mostRemembered;
    this.#content = new HashedContent(options.scale);
  }

  /** Returns null for a bad line that is skipped. */
  next(request: TraceRequest): TraceTurn | null {
    const { scale, bad } = this.#options;
    const { index, line, hashIds } = request;
    const lengths = scaledLengths(request, scale);
    if (this.#tooLong(request, lengths) || this.#occurredBefore(request)) return null;
    const chains = hashIds && prefixHashes(hashIds, 1);
    const fullBlocks = Math.floor(request.inputTokens / scale.traceBlockSize);
    const earlier = this.#follows(request, chains);
    if (this.#isOutOfOrder(request, earlier)) return null;
    const arrival = arrivalOf(request, earlier, scale.speedUp);
    if (!arrival) {
      const what =
        earlier && request.arrivalMs !== null
          ? `it has no delay, and the turn that it follows, on line ${earlier.line}, has no timestamp: wanted a delay on this line or a timestamp on that one`
          : 'it has no timestamp, and no delay after an earlier turn';
      bad.refuse(line, what);
      return null;
    }
    const history = earlier && holds(request, chains, earlier) ? earlier : null;
    const prompt = hashIds
      ? this.#content.prompt(hashIds, lengths.inputTokens, history).flat()
      : freshPrompt(index, lengths.inputTokens, history);
    const answer = answerTo(index, lengths.outputTokens);
    const conversationId = earlier && !earlier.followed ? earlier.conversationId : nameOf(request);
    if (earlier) earlier.followed = true;
    const turn = (earlier?.turn ?? 0) + 1;
    this.#remember(request, {
      inputTokens: lengths.inputTokens,
      outputTokens: lengths.outputTokens,
      index,
      line,
      conversationId,
      turn,
      fullBlocks: hashIds ? fullBlocks : 0,
      tail: hashIds ? sliceSegments(prompt, fullBlocks * scaledBlock(scale), lengths.inputTokens) : prompt,
      answer,
      arrivalMs: request.arrivalMs,
      answeredMs: request.answeredMs,
      endTokens: request.inputTokens + request.outputTokens,
      chain: chains && fullBlocks > 0 ? chains[fullBlocks - 1]! : null,
      place: '',
      followed: false,
    });
    const { inputTokens, outputTokens } = lengths;
    return { index, line, conversationId, turn, arrival, inputTokens, outputTokens, prompt, answer };
  }

  #tooLong(trace: TraceRequest, scaled: ReturnType<typeof scaledLengths>): boolean {
    const { maxModelLen, bad, scale } = this.#options;
    const tokens = scaled.inputTokens + scaled.outputTokens;
    if (maxModelLen === null || tokens <= maxModelLen) return false;
    const all = trace.inputTokens + trace.outputTokens;
    const divided = scale.lengthDivisor === 1 ? '' : ` (${tokens} when divided by ${scale.lengthDivisor})`;
    bad.refuse(
      trace.line,
      `prompt and answer have ${all} tokens${divided} and the context holds ${maxModelLen}: raise --max-model-len, or divide lengths by more`,
    );
    return true;
  }

  /** A chat's id names one request; later ones name it as their parent. */
  #occurredBefore({ line, origin }: TraceRequest): boolean {
    const before = origin.kind === 'chat' && this.#byName.get(origin.id);
    if (!before) return false;
    this.#options.bad.refuse(
      line,
      `the chat id ${origin.id} occurs on line ${before.line} too: wanted an id of its own for each request`,
    );
    return true;
  }

  /** A session's turns must be in time order within the session; all other requests in time order overall. */
  #isOutOfOrder({ line, arrivalMs, origin }: TraceRequest, earlier: Earlier | null): boolean {
    if (arrivalMs === null) return false;
    const inSession = earlier !== null && origin.kind === 'session';
    const beforeMs = inSession ? (earlier.arrivalMs ?? arrivalMs) : this.#lastMs;
    if (!inSession) this.#lastMs = Math.max(this.#lastMs, arrivalMs);
    if (arrivalMs >= beforeMs) return false;
    const seconds = (ms: number): string => `${(ms / 1000).toFixed(3)} s`;
    const other = inSession ? 'the turn that it follows' : 'a line before it';
    this.#options.bad.refuse(
      line,
      `time goes backwards: it arrives ${seconds(arrivalMs)} after the first request and ${other} ${seconds(beforeMs)}: sort the trace by time`,
    );
    return true;
  }

  #follows({ origin, inputTokens }: TraceRequest, chains: readonly number[] | null): Earlier | null {
    if (origin.kind === 'session') return this.#byName.get(origin.id) ?? null;
    if (origin.kind === 'chat')
      return origin.parent === null ? null : (this.#byName.get(origin.parent) ?? null);
    if (!chains) return null;
    for (let blocks = chains.length; blocks >= LEAST_FULL_BLOCKS; blocks--) {
      const found = this.#byChain.get(chains[blocks - 1]!)?.lastBefore(inputTokens);
      if (!found) continue;
      this.#forget(found);
      return found;
    }
    return null;
  }

  #remember({ origin, index }: TraceRequest, entry: Earlier): void {
    if (origin.kind !== 'unsaid') {
      entry.place = origin.id;
      const before = this.#byName.get(origin.id);
      if (before) this.#remembered.delete(before.index);
      this.#byName.set(origin.id, entry);
    } else {
      if (entry.chain === null || entry.fullBlocks < LEAST_FULL_BLOCKS) return;
      entry.place = entry.chain;
      const same = this.#byChain.get(entry.chain) ?? new SameBlocks();
      this.#byChain.set(entry.chain, same);
      same.add(entry);
    }
    this.#remembered.set(index, entry);
    if (this.#remembered.size <= this.#mostRemembered) return;
    // To find a Map's first key, V8 passes all deleted entries.
    while (!this.#remembered.has(this.#oldest)) this.#oldest++;
    this.#forget(this.#remembered.get(this.#oldest)!);
  }

  #forget(entry: Earlier): void {
    this.#remembered.delete(entry.index);
    if (typeof entry.place === 'string') {
      if (this.#byName.get(entry.place) === entry) this.#byName.delete(entry.place);
      return;
    }
    const same = this.#byChain.get(entry.place)!;
    same.delete(entry);
    if (same.isEmpty) this.#byChain.delete(entry.place);
  }
}

/**
 * Requests with the same full blocks, which may be nearly all of a trace: a long prompt that all begin with, and a
 * short question. They are kept by where they end, since there are only as many ends as lengths.
 */
class SameBlocks {
  /** The latest last. */
  readonly #byEnd = new Map<number, Earlier[]>();

  get isEmpty(): boolean {
    return this.#byEnd.size === 0;
  }

  add(entry: Earlier): void {
    const same = this.#byEnd.get(entry.endTokens);
    if (same) same.push(entry);
    else this.#byEnd.set(entry.endTokens, [entry]);
  }

  /** The latest request whose prompt and answer are together shorter than inputTokens. */
  lastBefore(inputTokens: number): Earlier | null {
    let last: Earlier | null = null;
    for (const [endTokens, same] of this.#byEnd) {
      const latest = same.at(-1)!;
      if (endTokens < inputTokens && latest.index > (last?.index ?? -1)) last = latest;
    }
    return last;
  }

  delete(entry: Earlier): void {
    const same = this.#byEnd.get(entry.endTokens)!;
    // It is the latest if it is followed, the first if it is forgotten.
    if (same.at(-1) === entry) same.pop();
    else same.splice(same.indexOf(entry), 1);
    if (same.length === 0) this.#byEnd.delete(entry.endTokens);
  }
}

const nameOf = ({ origin, index }: TraceRequest): string =>
  origin.kind === 'unsaid' ? `trace-${index}` : origin.id;

/** If the file does not say when the answer before it ended, the whole gap counts as thinking. */
function arrivalOf(
  { arrivalMs, origin }: TraceRequest,
  earlier: Earlier | null,
  speedUp: number,
): TraceArrival | null {
  if (!earlier) return arrivalMs === null ? null : { kind: 'at', ms: arrivalMs / speedUp };
  const delayMs = origin.kind === 'session' ? origin.delayMs : null;
  const gapMs =
    arrivalMs === null || earlier.arrivalMs === null
      ? null
      : Math.max(0, arrivalMs - earlier.arrivalMs - (earlier.answeredMs ?? 0));
  const thinkMs = delayMs ?? gapMs;
  return thinkMs === null ? null : { kind: 'after', index: earlier.index, thinkMs: thinkMs / speedUp };
}

/** Whether the prompt begins with the earlier one's, and continues after its answer. */
function holds(
  { inputTokens }: TraceRequest,
  chains: readonly number[] | null,
  { endTokens, chain, fullBlocks }: Earlier,
): boolean {
  if (inputTokens <= endTokens) return false;
  return chains === null || fullBlocks === 0 || chains[fullBlocks - 1] === chain;
}

/** The turns of a trace, as it is read. Throws ConfigError if there are none. */
export async function* traceTurns(
  requests: AsyncIterable<TraceRequest>,
  options: TurnOptions,
): AsyncGenerator<TraceTurn> {
  const maker = new TurnMaker(options);
  let count = 0;
  for await (const request of requests) {
    const turn = maker.next(request);
    if (!turn) continue;
    count++;
    yield turn;
  }
  if (count === 0) throw new ConfigError('the trace has no request that can be served');
}
