/** A lesson's actions, which work only while the lesson is shown. */
import type { SessionActions } from '../session/types.ts';

/** When `isShown` is false every action does nothing, so a step that was left halfway cannot act on what follows it. */
export const actionsWhile = (isShown: () => boolean, actions: SessionActions): SessionActions =>
  new Proxy(actions, {
    get(target, name: keyof SessionActions) {
      const act = target[name] as (...args: unknown[]) => unknown;
      return (...args: unknown[]) => (isShown() ? act.apply(target, args) : Promise.resolve());
    },
  });
