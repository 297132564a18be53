// One answer on the page: its text as it comes, then its figures, or what went wrong.
import { element } from "./element.js";

const FIGURES_EVERY_MS = 200;

export class Answer {
  constructor() {
    this.text = "";
    this.body = element("div", { className: "text" });
    this.figures = element("p", { className: "figures" });
    this.item = element("article", { className: "answer" }, [
      element("span", { className: "unseen", textContent: "Answer: " }), this.body, this.figures,
    ]);
    // Screen readers get the answer when it is whole, not in shreds.
    this.item.setAttribute("aria-busy", "true");
    this.node = this.body.appendChild(document.createTextNode(""));
    this.pending = "";
    this.begin = performance.now();
    this.numDeltas = 0;
    this.figuresShown = 0;
  }

  // Takes one chunk of the stream; `onPaint` is called after new text is on the page.
  take(chunk, onPaint) {
    if (chunk.usage) this.usage = chunk.usage;
    const choice = chunk.choices?.[0];
    if (choice?.finish_reason) this.finishReason = choice.finish_reason;
    const text = choice?.delta?.content;
    if (!text) return;
    this.last = performance.now();
    this.first ??= this.last;
    ++this.numDeltas;
    this.text += text;
    this.pending += text;
    this.onPaint = onPaint;
    // Many tokens may come within one frame; the page is changed once.
    this.frame ??= requestAnimationFrame(() => this.paint());
  }

  paint() {
    cancelAnimationFrame(this.frame);
    this.frame = undefined;
    if (!this.pending) return;
    this.node.appendData(this.pending);  // as text, whatever it holds
    this.pending = "";
    if (this.last - this.figuresShown > FIGURES_EVERY_MS) {
      this.figuresShown = this.last;
      this.figures.textContent = this.describe();
    }
    this.onPaint();
  }

  finish(note) {
    if (this.onPaint) this.paint();
    this.figures.textContent = [this.describe(), note].filter(Boolean).join(" · ");
    if (this.text) this.figures.append(" ", this.copyButton());
    this.item.setAttribute("aria-busy", "false");
  }

  fail(message, onRetry) {
    const retry = element("button", { type: "button", className: "quiet", textContent: "Try again", onclick: onRetry });
    const error = element("p", { className: "error", textContent: `${message} ` }, [retry]);
    error.setAttribute("role", "alert");
    this.body.after(error);
    this.finish("");
  }

  // TTFT is to the first text; the speed is that of the tokens after the first.
  describe() {
    if (this.first === undefined) return "";
    const numTokens = this.usage?.completion_tokens ?? this.numDeltas;
    const parts = [`TTFT ${milliseconds(this.first - this.begin)}`, `${numTokens} ${numTokens === 1 ? "token" : "tokens"}`];
    const seconds = (this.last - this.first) / 1000;
    if (numTokens > 1 && seconds > 0.001) parts.push(`${((numTokens - 1) / seconds).toFixed(1)} tokens/s`);
    return parts.join(" · ");
  }

  copyButton() {
    const button = element("button", { type: "button", className: "quiet", textContent: "Copy" });
    button.onclick = async () => {
      try {
        await navigator.clipboard.writeText(this.text);
        button.textContent = "Copied";
      } catch {
        button.textContent = "The browser forbids it";  // pages over plain HTTP, but for localhost
      }
    };
    return button;
  }
}

export function milliseconds(value) {
  return value >= 1000 ? `${(value / 1000).toFixed(2)} s` : `${value.toFixed(value < 10 ? 1 : 0)} ms`;
}
