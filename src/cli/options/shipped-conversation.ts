/** The conversation that comes with kvferry, as a default of the commands that serve it. */
import { MADE_CONVERSATION_KEYS, runConfigSchema, SHIPPED } from '../../config/run.ts';

/** A workload of one of these is served instead. */
const OTHER_WORKLOADS = [...MADE_CONVERSATION_KEYS, 'preset', 'inputFile'] as const;

/** With these settings its answers depend on pulled KV. */
const ITS_SETTINGS = { conversation: SHIPPED, threshold: 32, prefixCaching: false } as const;

/** For model recall, unless the user gave another workload. */
export function shippedDefaults(given: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const {
    model = runConfigSchema.shape.model.parse(undefined),
    conversation = model === 'recall' && OTHER_WORKLOADS.every((key) => given[key] === undefined)
      ? SHIPPED
      : null,
  } = given;
  return conversation === SHIPPED ? ITS_SETTINGS : {};
}

/** For help. */
export const SHIPPED_NOTES = {
  prefixCaching:
    "with the shipped conversation P keeps none, so that every earlier token is pulled or recomputed; --prefix-caching turns P's cache on",
};
