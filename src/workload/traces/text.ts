/** Splits a file that comes in chunks into lines or JSON objects. Keeps no more than one of them. */
import { ConfigError } from '../../errors.ts';

export type Chunks = AsyncIterable<string>;

/** Most characters of a line or object: a prompt of a million tokens with all their ids takes fewer. */
const LONGEST = 1 << 24;

export interface Piece {
  text: string;
  /** Number of the line or object, from 1 on. */
  place: number;
}

/** The lines, without line ends; empty ones are skipped, but counted. Throws ConfigError for one that does not end. */
export async function* lines(chunks: Chunks, source: string): AsyncGenerator<Piece> {
  let rest = '';
  let place = 0;
  for await (const chunk of chunks) {
    const parts = (rest + chunk).split('\n');
    rest = parts.pop()!;
    for (const part of parts) {
      place++;
      if (part.trim() !== '') yield { text: part, place };
    }
    if (rest.length > LONGEST)
      throw new ConfigError(`${source}, line ${place + 1} does not end: wanted a request on each line`);
  }
  if (rest.trim() !== '') yield { text: rest, place: place + 1 };
}

/**
 * The objects of a JSON list, or objects that follow each other, as text. Throws ConfigError for one that does not end.
 */
export async function* jsonObjects(chunks: Chunks, source: string): AsyncGenerator<Piece> {
  let place = 0;
  let depth = 0;
  let quoted = false;
  let escaped = false;
  let partial = '';
  const endless = (): ConfigError =>
    new ConfigError(`${source}: object ${place + 1} does not end: wanted a JSON list of conversations`);
  for await (const chunk of chunks) {
    let start = 0;
    for (let at = 0; at < chunk.length; at++) {
      const code = chunk.charCodeAt(at);
      if (escaped) escaped = false;
      else if (quoted) {
        if (code === BACKSLASH) escaped = true;
        else if (code === QUOTE) quoted = false;
      } else if (code === QUOTE) quoted = depth > 0;
      else if (code === OPEN && depth++ === 0) start = at;
      else if (code === CLOSE && depth > 0 && --depth === 0) {
        place++;
        yield { text: partial + chunk.slice(start, at + 1), place };
        partial = '';
      }
    }
    if (depth > 0) partial += chunk.slice(start);
    if (partial.length > LONGEST) throw endless();
  }
  if (depth > 0) throw endless();
}

const [QUOTE, BACKSLASH, OPEN, CLOSE] = [0x22, 0x5c, 0x7b, 0x7d];
