/** Creates an eviction policy by its name in the settings. */
import type { EvictionName } from '../../config/store.ts';
import { Arc } from './arc.ts';
import { Lru } from './lru.ts';
import { AIBRIX, PAPER, S3Fifo } from './s3fifo.ts';
import type { EvictionDeps, EvictionPolicy } from './types.ts';

export function makeEviction(name: EvictionName, deps: EvictionDeps): EvictionPolicy {
  switch (name) {
    case 'lru':
      return new Lru(deps);
    case 'arc':
      return new Arc(deps);
    case 's3fifo':
      return new S3Fifo(deps, AIBRIX);
    case 's3fifo-paper':
      return new S3Fifo(deps, PAPER);
  }
}
