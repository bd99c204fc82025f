/** How logprobs show one token: vLLM's text of it, and its bytes. */
import type { TextTools } from '../service.ts';

export interface TokenShown {
  token: string;
  /** null: unknown. */
  bytes: readonly number[] | null;
}

/** `before`: the output tokens before it. */
export type ShowToken = (tokenId: number, before: readonly number[]) => TokenShown;

/** A character has at most as many tokens before its last. */
export const TOKENS_BEFORE = 4;

const utf8 = new TextEncoder();

export const asShown = (token: string): TokenShown => ({ token, bytes: [...utf8.encode(token)] });

const isCut = (text: string): boolean => text.endsWith('\ufffd');

/**
 * As in vLLM, the token that completes a character has its whole text, and those before it have none. The bytes are each
 * token's own.
 */
export const tokenShown =
  (text: Pick<TextTools, 'decode' | 'bytes'>): ShowToken =>
  (tokenId, before) => {
    const alone = text.decode([tokenId]);
    if (!alone.includes('\ufffd')) return asShown(alone);
    const token = isCut(alone) ? completed(text, tokenId, before) : alone;
    return { token, bytes: text.bytes(tokenId) };
  };

/** The text that the token completes; '' if it completes none. */
function completed(
  { decode }: Pick<TextTools, 'decode'>,
  tokenId: number,
  before: readonly number[],
): string {
  for (let count = 1; count <= Math.min(TOKENS_BEFORE, before.length); count++) {
    const context = before.slice(-count);
    const whole = decode([...context, tokenId]);
    if (isCut(whole)) continue;
    const told = decode(context.slice(0, 1 + context.findLastIndex((id) => !isCut(decode([id])))));
    let same = 0;
    while (same < told.length && told[same] === whole[same]) same++;
    return whole.slice(same);
  }
  return '';
}
