/** Preloaded into every thread whose memory a benchmark measures: see live-memory.ts. */
import { isMainThread } from 'node:worker_threads';
import { answerMainThread, answerParent } from './live-memory.ts';

if (isMainThread) answerParent();
else answerMainThread();
