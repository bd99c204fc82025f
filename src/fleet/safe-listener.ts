/**
 * Wraps a listener so that its errors are only printed to the console: they end no turn, and other listeners are
 * still called.
 */
export const safeListener =
  <T extends unknown[]>(listener: (...news: T) => void) =>
  (...news: T): void => {
    try {
      listener(...news);
    } catch (error) {
      console.error('kvferry: a listener of the cluster failed:', error);
    }
  };
