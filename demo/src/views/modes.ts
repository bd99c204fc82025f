/** The modes by the names that the page has for them, and what each does to the memory of a conversation. No DOM. */
import type { Mode } from '../session/types.ts';

interface ModeWords {
  name: string;
  about: string;
  /** Before anything was asked. */
  opening: string;
}

/** In the order in which they are offered. */
export const MODES: Readonly<Record<Mode, ModeWords>> = {
  bidirectional: {
    name: 'Both ways',
    about: 'P pulls back the KV that D generated',
    opening: 'P reads. D writes. Their memory is copied between them.',
  },
  unidirectional: {
    name: 'One way',
    about: 'P computes again what D generated',
    opening: 'P reads. D writes. What P read is copied to D, and nothing back.',
  },
  monolithic: {
    name: 'One engine',
    about: 'One engine prefills and decodes',
    opening: 'One engine reads and writes. Nothing is copied.',
  },
  'decode-local': {
    name: 'D alone',
    about: 'From the second turn on D prefills by itself',
    opening: 'P reads the first prompt. From then on D reads and writes by itself.',
  },
};
