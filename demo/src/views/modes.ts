/** The page's names for the modes, and what each mode does with a conversation's KV. No DOM. */
import type { Mode } from '../session/types.ts';

interface ModeWords {
  name: string;
  about: string;
  /** The headline before the first question. */
  opening: string;
}

/** In the order of the page's buttons. */
export const MODES: Readonly<Record<Mode, ModeWords>> = {
  bidirectional: {
    name: 'Both ways',
    about: 'P pulls back the KV that D generated',
    opening: 'P reads. D writes. KV is copied between them, both ways.',
  },
  unidirectional: {
    name: 'One way',
    about: 'P computes the KV of D’s answers again',
    opening: 'P reads. D writes. P’s KV is copied to D, and nothing comes back.',
  },
  monolithic: {
    name: 'One engine',
    about: 'One engine prefills and decodes',
    opening: 'One engine reads and writes. Nothing is copied.',
  },
  'decode-local': {
    name: 'D alone',
    about: 'From the second turn on, D prefills alone',
    opening: 'P reads the first prompt. From then on, D reads and writes alone.',
  },
};
