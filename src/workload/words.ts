/** Words in place of tokens, for a server whose tokenizer is unknown: in most tokenizers each is one token. */
import { LOWEST_TOKEN_ID } from './random-conversations.ts';
import type { Vocabulary } from './types.ts';

const WORDS = (
  'the of and to in is was for on that by this with from at which have has had not are but they were one all there ' +
  'been their more when who would about what some time other into than only new like these could now then over such ' +
  'long after many before also through years where most well day way good down back right old world work life under ' +
  'house place both night three while small little off part water home own again still last men great made year state'
).split(' ');

/** Ids from LOWEST_TOKEN_ID on are words. */
export const wordVocabulary: Vocabulary = {
  size: LOWEST_TOKEN_ID + WORDS.length,
  encode(text) {
    const words = text.split(/\s+/).filter(Boolean);
    return words.map((word) => LOWEST_TOKEN_ID + Math.max(0, WORDS.indexOf(word)));
  },
  decode: (ids) => ids.map((id) => WORDS[(id - LOWEST_TOKEN_ID) % WORDS.length]).join(' '),
};
