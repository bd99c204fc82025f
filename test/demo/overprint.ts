/** Finds canvas texts that overlap each other or are cut off at an edge. */
import type { BrowserContext, Page } from 'playwright-core';

interface DrawnText {
  text: string;
  x: number;
  y: number;
  width: number;
  height: number;
}

/**
 * Call before the page is opened. Records the texts on each canvas since it was last cleared, except those inside a clip,
 * and every text ever drawn with its font.
 */
export async function watchCanvasText(context: BrowserContext): Promise<void> {
  await context.addInitScript(() => {
    const texts = new Map<HTMLCanvasElement, DrawnText[]>();
    const clips = new WeakMap<CanvasRenderingContext2D, boolean[]>();
    const drawnInFonts = new Set<string>();
    Object.assign(globalThis, { canvasTexts: texts, drawnInFonts });
    const { prototype } = CanvasRenderingContext2D;
    const { clearRect, clip, fillText, restore, save } = prototype;
    const clipsOf = (one: CanvasRenderingContext2D) => {
      if (!clips.has(one)) clips.set(one, [false]);
      return clips.get(one)!;
    };
    prototype.clearRect = function (x, y, width, height) {
      const { a } = this.getTransform();
      if (width * a >= this.canvas.width - 2) texts.set(this.canvas, []);
      return clearRect.call(this, x, y, width, height);
    };
    prototype.save = function () {
      clipsOf(this).push(clipsOf(this).at(-1)!);
      return save.call(this);
    };
    prototype.restore = function () {
      if (clipsOf(this).length > 1) clipsOf(this).pop();
      return restore.call(this);
    };
    prototype.clip = function (...given: unknown[]) {
      clipsOf(this)[clipsOf(this).length - 1] = true;
      return (clip as (...all: unknown[]) => void).apply(this, given);
    };
    prototype.fillText = function (text, x, y, most) {
      drawnInFonts.add(`${this.font} ${text}`);
      const size = this.measureText(text);
      const ascent = size.actualBoundingBoxAscent;
      const from = new DOMPoint(x - size.actualBoundingBoxLeft, y - ascent).matrixTransform(
        this.getTransform(),
      );
      const to = new DOMPoint(
        x + size.actualBoundingBoxRight,
        y + size.actualBoundingBoxDescent,
      ).matrixTransform(this.getTransform());
      const ratio = this.canvas.width / this.canvas.clientWidth || 1;
      if (!clipsOf(this).at(-1) && text.trim() !== '') {
        const all = texts.get(this.canvas) ?? [];
        texts.set(this.canvas, all);
        const [left, right] = [Math.min(from.x, to.x), Math.max(from.x, to.x)];
        const [above, below] = [Math.min(from.y, to.y), Math.max(from.y, to.y)];
        const box = { x: left, y: above, width: right - left, height: below - above };
        const inPixels = Object.entries(box).map(([name, value]) => [name, value / ratio]);
        all.push({ text, ...Object.fromEntries(inPixels) } as DrawnText);
      }
      return most === undefined ? fillText.call(this, text, x, y) : fillText.call(this, text, x, y, most);
    };
  });
}

/** The faults as sentences; empty if all text is readable. */
export const canvasFaults = (page: Page): Promise<string[]> =>
  page.evaluate<string[]>(`(() => {
    const faults = [];
    for (const [canvas, texts] of canvasTexts) {
      if (!canvas.isConnected) continue;
      texts.forEach((one, i) => {
        const [right, bottom] = [one.x + one.width, one.y + one.height];
        if (one.x < -1 || one.y < -1 || right > canvas.clientWidth + 1 || bottom > canvas.clientHeight + 1)
          faults.push('cut off: ' + one.text + ' at ' + Math.round(one.x) + ' of ' + canvas.clientWidth);
        for (const other of texts.slice(i + 1)) {
          const over = Math.min(one.x + one.width, other.x + other.width) - Math.max(one.x, other.x);
          const below = Math.min(one.y + one.height, other.y + other.height) - Math.max(one.y, other.y);
          if (over > 1 && below > 1) faults.push('overprinted: ' + one.text + ' and ' + other.text);
        }
      });
    }
    return faults;
  })()`);
