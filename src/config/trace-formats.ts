/** Formats of traces that are read, by name. */
export const TRACE_FORMATS = [
  'mooncake',
  'bailian',
  'azure',
  'burstgpt',
  'llmservingsim',
  'conversations',
] as const;
export type TraceFormat = (typeof TRACE_FORMATS)[number];
