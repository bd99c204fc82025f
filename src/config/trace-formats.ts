/** Trace formats that can be read. */
export const TRACE_FORMATS = [
  'mooncake',
  'bailian',
  'azure',
  'burstgpt',
  'llmservingsim',
  'conversations',
] as const;
export type TraceFormat = (typeof TRACE_FORMATS)[number];
