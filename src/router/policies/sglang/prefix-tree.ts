/**
 * SGLang's approximate radix tree (sgl-model-gateway, tree.rs): which engine was sent which prompt, by token. It does
 * not learn of engines' evictions. Each node records when each engine was last sent a prompt through it.
 */

interface Node {
  tokens: readonly number[];
  children: Map<number, Node>;
  /** When each engine was last sent a prompt through this node, in milliseconds. */
  engines: Map<string, number>;
}

export class PrefixTree {
  readonly #root: Node = { tokens: [], children: new Map(), engines: new Map() };
  /** Number of the tree's tokens by engine. */
  readonly #sizes = new Map<string, number>();

  sizeOf(engineId: string): number {
    return this.#sizes.get(engineId) ?? 0;
  }

  /**
   * Leading tokens that any engine was sent, and the engine of `candidates` that was last sent all of them; null: none of
   * these.
   */
  match(
    tokenIds: readonly number[],
    candidates: ReadonlySet<string>,
  ): { tokens: number; engineId: string | null } {
    let matched = 0;
    let engines: ReadonlyMap<string, number> = new Map();
    for (
      let node = this.#root.children.get(tokenIds[0]!);
      node;
      node = node.children.get(tokenIds[matched]!)
    ) {
      const shared = sharedTokens(node.tokens, tokenIds, matched);
      matched += shared;
      engines = node.engines;
      if (shared < node.tokens.length || matched === tokenIds.length) break;
    }
    let engineId: string | null = null;
    let last = Number.NEGATIVE_INFINITY;
    for (const [candidate, atMs] of engines) {
      if (atMs > last && candidates.has(candidate)) {
        engineId = candidate;
        last = atMs;
      }
    }
    return { tokens: matched, engineId };
  }

  insert(tokenIds: readonly number[], engineId: string, atMs: number): void {
    let at = this.#root;
    let done = 0;
    while (done < tokenIds.length) {
      const first = tokenIds[done]!;
      let child = at.children.get(first);
      if (!child) {
        child = { tokens: tokenIds.slice(done), children: new Map(), engines: new Map() };
        at.children.set(first, child);
      }
      const shared = sharedTokens(child.tokens, tokenIds, done);
      if (shared < child.tokens.length) split(child, shared);
      if (!child.engines.has(engineId)) this.#grow(engineId, shared);
      child.engines.set(engineId, atMs);
      done += shared;
      at = child;
    }
  }

  /** Removes the least recently used nodes of each engine, leaves first, until it has at most `most` tokens. */
  evict(most: number): void {
    for (const [engineId, size] of this.#sizes) {
      if (size <= most) continue;
      const paths: { node: Node; parent: Node; depth: number }[] = [];
      const collect = (parent: Node, depth: number) => {
        for (const node of parent.children.values()) {
          if (!node.engines.has(engineId)) continue;
          paths.push({ node, parent, depth });
          collect(node, depth + 1);
        }
      };
      collect(this.#root, 0);
      // A node is never older than its children.
      const age = ({ node }: { node: Node }) => node.engines.get(engineId)!;
      paths.sort((a, b) => age(a) - age(b) || b.depth - a.depth);
      for (const { node, parent } of paths) {
        if (this.sizeOf(engineId) <= most) break;
        node.engines.delete(engineId);
        this.#grow(engineId, -node.tokens.length);
        if (node.engines.size === 0) parent.children.delete(node.tokens[0]!);
      }
    }
  }

  /** Call when the engine has ended. Other engines' entries stay. */
  forget(engineId: string): void {
    this.#sizes.delete(engineId);
    const leave = (parent: Node): void => {
      for (const [first, node] of parent.children) {
        if (!node.engines.delete(engineId)) continue;
        if (node.engines.size === 0) parent.children.delete(first);
        else leave(node);
      }
    };
    leave(this.#root);
  }

  #grow(engineId: string, tokens: number): void {
    const size = this.sizeOf(engineId) + tokens;
    if (size > 0) this.#sizes.set(engineId, size);
    else this.#sizes.delete(engineId);
  }
}

/** The node keeps its first `keep` tokens; a new child takes the rest and everything below. */
function split(node: Node, keep: number): void {
  const rest: Node = {
    tokens: node.tokens.slice(keep),
    children: node.children,
    engines: new Map(node.engines),
  };
  node.tokens = node.tokens.slice(0, keep);
  node.children = new Map([[rest.tokens[0]!, rest]]);
}

function sharedTokens(tokens: readonly number[], of: readonly number[], from: number): number {
  const most = Math.min(tokens.length, of.length - from);
  let shared = 0;
  while (shared < most && tokens[shared] === of[from + shared]) shared++;
  return shared;
}
