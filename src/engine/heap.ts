/** A binary heap, with removal from the middle. */
export class Heap<T> {
  readonly #items: T[] = [];
  readonly #isBefore: (a: T, b: T) => boolean;
  readonly #onPlace: ((item: T, place: number) => void) | null;

  /** `onPlace` is called with an item's new place whenever it moves. Needed by callers of removeAt. */
  constructor(isBefore: (a: T, b: T) => boolean, onPlace: ((item: T, place: number) => void) | null = null) {
    this.#isBefore = isBefore;
    this.#onPlace = onPlace;
  }

  /** The first item first, the others in no particular order. */
  get items(): readonly T[] {
    return this.#items;
  }

  get first(): T | undefined {
    return this.#items[0];
  }

  push(item: T): void {
    this.#items.push(item);
    this.#rise(item, this.#items.length - 1);
  }

  /** Removes and returns the first item. */
  pop(): T | undefined {
    const first = this.#items[0];
    if (first !== undefined) this.removeAt(0);
    return first;
  }

  /** `place`: as last given to onPlace. */
  removeAt(place: number): void {
    const items = this.#items;
    const last = items.pop()!;
    if (place === items.length) return;
    if (place > 0 && this.#isBefore(last, items[(place - 1) >> 1]!)) this.#rise(last, place);
    else this.#sink(last, place);
  }

  #rise(item: T, from: number): void {
    const items = this.#items;
    let place = from;
    while (place > 0) {
      const parent = (place - 1) >> 1;
      if (this.#isBefore(items[parent]!, item)) break;
      this.#put(items[parent]!, place);
      place = parent;
    }
    this.#put(item, place);
  }

  #sink(item: T, from: number): void {
    const items = this.#items;
    let place = from;
    for (let child = 2 * place + 1; child < items.length; child = 2 * place + 1) {
      if (child + 1 < items.length && this.#isBefore(items[child + 1]!, items[child]!)) child++;
      if (this.#isBefore(item, items[child]!)) break;
      this.#put(items[child]!, place);
      place = child;
    }
    this.#put(item, place);
  }

  #put(item: T, place: number): void {
    this.#items[place] = item;
    this.#onPlace?.(item, place);
  }
}
