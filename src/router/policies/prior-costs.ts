/** Prior costs of the learning policies, as parameters. They describe no particular machine; outcomes replace them. */
import { z } from 'zod';

const ms = (fallback: number) => z.number().nonnegative().default(fallback);

export const priorCosts = {
  prefillFixedMs: ms(5),
  prefillMsPerToken: ms(0.1),
  prefillMsPerTokenContext: ms(1e-5),
  moveFixedMs: ms(1),
  moveMsPerByte: ms(1e-6),
  moveMsPerHolderRequest: ms(0.1),
  firstStepMs: ms(5),
  firstStepMsPerRequest: ms(0.5),
};
