/** What is wrong in a workload's JSON, as one sentence: where, what was found, what was wanted. */
import type { z } from 'zod';
import { didYouMean } from '../config/fields.ts';

export function firstIssue(error: z.ZodError, json: unknown, location: string): string {
  const issue = error.issues[0]!;
  const place = issue.path.map(String).join('.');
  const found = issue.path.reduce<unknown>(
    (value, key) =>
      typeof value === 'object' && value !== null ? (value as Record<PropertyKey, unknown>)[key] : undefined,
    json,
  );
  if (issue.code === 'unrecognized_keys') {
    const known = knownKeys(place);
    const key = issue.keys[0]!;
    const wanted =
      known.length === 0 ? 'leave it out' : `wanted ${known.join(', ')}${didYouMean(key, known)}`;
    return `${location}: ${place === '' ? 'there is' : `${place} has`} an unknown key '${key}': ${wanted}`;
  }
  const shown = found === undefined ? 'missing' : short(JSON.stringify(found));
  return `${location}: ${place === '' ? 'it' : place} is ${shown}: wanted ${issue.message}`;
}

const short = (text: string): string => (text.length <= 60 ? text : `${text.slice(0, 57)}...`);

const DISTRIBUTION_KEYS: readonly string[] = [
  'distribution',
  'value',
  'min',
  'max',
  'average',
  'median_ratio',
  'mean',
  'sigma',
  'alpha',
];

function knownKeys(place: string): readonly string[] {
  switch (place) {
    case '':
      return ['filetype', 'num_conversations', 'text_files', 'print_stats', 'prompt_input', 'prompt_output'];
    case 'prompt_input':
      return ['num_turns', 'common_prefix_num_tokens', 'prefix_num_tokens', 'num_tokens'];
    case 'prompt_output':
      return ['num_tokens'];
    default:
      return DISTRIBUTION_KEYS;
  }
}
