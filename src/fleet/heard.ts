/** A listener whose errors are its own: told on the console, they end no turn and keep nothing from others who listen. */
export const heard =
  <T extends unknown[]>(listener: (...news: T) => void) =>
  (...news: T): void => {
    try {
      listener(...news);
    } catch (error) {
      console.error('kvferry: a listener of the cluster failed:', error);
    }
  };
