/** What a step of a lesson may do, as long as the lesson is shown. */
import type { SessionActions } from '../session/types.ts';

/** Once it is not, nothing: a step that was left half way asks nobody in what came after it. */
export const actionsWhile = (isShown: () => boolean, actions: SessionActions): SessionActions =>
  new Proxy(actions, {
    get(target, name: keyof SessionActions) {
      const act = target[name] as (...args: unknown[]) => unknown;
      return (...args: unknown[]) => (isShown() ? act.apply(target, args) : Promise.resolve());
    },
  });
