/** A service without engines, whose answers follow from the prompt or from what a test sets. */
import { expect } from 'vitest';
import type { PromptEnd } from '../../src/router/turn-types.ts';
import type { AnswerPiece, GenerationRequest, PortService } from '../../src/server/service.ts';

const VOCAB = 512;

/** Each character is a token; an answer repeats the prompt's tokens from the first. */
export class StubService {
  readonly kind: 'engine' | 'router';
  readonly name: string;
  readonly model = { names: ['nano', 'alias'], maxModelLen: 64, vocabSize: VOCAB, eosTokenIds: [0] };
  readonly maxNumSeqs = 2;
  readonly text = {
    encode: async (text: string) => this.ids(text),
    mostCharacters: 4,
    withSpecialTokens: (ids: readonly number[]) => ids,
    decode: (ids: readonly number[]) => String.fromCodePoint(...ids),
    bytes: (id: number): number[] | null => [...Buffer.from(String.fromCodePoint(id))],
    token: (id: number) => `Ġ${String.fromCodePoint(id)}`,
    encodeMessages: async (messages: readonly { content: string }[], end: PromptEnd) => [
      ...messages.flatMap(({ content }) => this.ids(content)),
      ...this.ids(end === 'plain' ? '.' : end === 'continue' ? '-' : ''),
    ],
  };
  readonly cluster = null;
  readonly requests: GenerationRequest[] = [];
  /** Tokens given, in all answers. */
  tokens = 0;
  /** Requests that were ended by their signal. */
  aborted = 0;
  /** Awaited before each token. */
  pace: () => Promise<void> = async () => {};
  /** Thrown before the token of this index. */
  failure: { at: number; error: Error } | null = null;
  kvTransferParams: AnswerPieceEnd['kvTransferParams'] = null;
  resets = true;
  noteHost = (): void => {};
  refused: (body?: unknown) => void = () => {};

  constructor(kind: 'engine' | 'router' = 'router') {
    this.kind = kind;
    this.name = kind === 'router' ? 'router' : 'decode-0';
  }

  ids(text: string): number[] {
    return [...text].map((character) => character.codePointAt(0)!);
  }

  unhealthy(): string | null {
    return null;
  }

  async resetPrefixCache(): Promise<boolean> {
    return this.resets;
  }

  async *generate(request: GenerationRequest): AsyncGenerator<AnswerPiece> {
    this.requests.push(request);
    const { prompt, sampling, signal } = request;
    const ids =
      prompt.kind === 'tokens'
        ? prompt.tokenIds
        : prompt.kind === 'text'
          ? await this.text.encode(prompt.text)
          : await this.text.encodeMessages(prompt.messages, prompt.end);
    request.onPrompt(ids);
    const account = { promptTokens: ids.length, localHitTokens: 1, pulledTokens: 2, noPull: null };
    for (let i = 0; i < sampling.maxTokens; i++) {
      if (this.failure?.at === i) throw this.failure.error;
      await Promise.race([this.pace(), gone(signal)]);
      if (signal.aborted) {
        this.aborted++;
        throw signal.reason;
      }
      const tokenId = ids[i % ids.length]!;
      const final =
        i === sampling.maxTokens - 1
          ? {
              finishReason: 'length' as const,
              stopReason: null,
              prompt: { ...account, computedTokens: ids.length - 3 },
              storedTokens: 0,
              kvTransferParams: this.kvTransferParams,
            }
          : null;
      const logits = sampling.keepLogits ? Float32Array.from({ length: VOCAB }, (_, id) => -id / 100) : null;
      this.tokens++;
      yield { tokenId, text: this.text.decode([tokenId]), logits, atMs: 10 * i, final };
    }
  }
}

type AnswerPieceEnd = NonNullable<AnswerPiece['final']>;

const gone = (signal: AbortSignal) =>
  new Promise<void>((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });

export const asService = (stub: StubService): PortService => stub as unknown as PortService;

/** `data:` lines of a stream, parsed; the last must be [DONE]. */
export async function events(response: Response): Promise<Record<string, never>[]> {
  const text = await response.text();
  const lines = text.split('\n\n').filter((line) => line !== '');
  expect(lines.every((line) => line.startsWith('data: '))).toBe(true);
  expect(lines.at(-1)).toBe('data: [DONE]');
  return lines.slice(0, -1).map((line) => JSON.parse(line.slice(6)));
}
