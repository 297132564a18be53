// The conversation: what was said, what is being answered, and what the next request will hold.
import { ApiError, streamChat } from "./api.js";
import { Answer } from "./answer.js";
import { element } from "./element.js";

const NOTES = { length: "cut off at the token limit", content_filter: "cut off by a filter" };
const NEAR_THE_END_PX = 80;

export class Chat {
  // `settings()`: the request's fields but for the messages. `askForKey(refusal)`: whether there is a new key to try.
  // `onBusy(isBusy)`: an answer begins or ends.
  constructor({ list, scroller, welcome, settings, askForKey, onBusy }) {
    Object.assign(this, { list, scroller, welcome, settings, askForKey, onBusy });
    this.history = [];
    this.abort = null;
  }

  get isBusy() {
    return this.abort !== null;
  }

  stop() {
    this.abort?.abort();
  }

  reset() {
    this.stop();
    this.history = [];
    this.list.replaceChildren();
    this.welcome.hidden = false;
  }

  async send(text) {
    if (this.isBusy) return;
    this.welcome.hidden = true;
    this.list.append(element("article", { className: "question" }, [
      element("span", { className: "unseen", textContent: "You: " }), element("div", { className: "text", textContent: text }),
    ]));
    await this.answer(text);
  }

  // Only what was answered becomes part of the conversation that is sent: a question without an answer would
  // break the turns that templates expect.
  async answer(question) {
    const answer = new Answer();
    const abort = new AbortController();
    const history = this.history;  // reset() starts another
    this.abort = abort;
    this.onBusy(true);
    for (const error of this.list.querySelectorAll(".error button")) error.remove();  // only the last turn can be tried again
    this.list.append(answer.item);
    this.scroller.scrollTop = this.scroller.scrollHeight;
    try {
      const { system, ...fields } = this.settings();
      const messages = [...history, { role: "user", content: question }];
      if (system) messages.unshift({ role: "system", content: system });
      await this.stream({ ...fields, messages }, abort.signal, answer);
      answer.finish(answer.text ? NOTES[answer.finishReason] ?? "" : "the answer is empty");
    } catch (error) {
      if (error.name === "AbortError") {
        answer.finish("stopped");
      } else {
        answer.fail(sentence(error.message), () => this.retry(question, answer));
      }
    } finally {
      this.keepInView();
      if (answer.text || answer.finishReason) {
        history.push({ role: "user", content: question }, { role: "assistant", content: answer.text });
      }
      this.abort = null;
      this.onBusy(false);
    }
  }

  async stream(request, signal, answer) {
    for (;;) {
      try {
        answer.begin = performance.now();
        for await (const chunk of streamChat(request, signal)) answer.take(chunk, () => this.keepInView());
        return;
      } catch (error) {
        const isKeyMissing = error instanceof ApiError && error.status === 401;
        if (!isKeyMissing || !(await this.askForKey(error.message))) throw error;
      }
    }
  }

  retry(question, failed) {
    if (this.isBusy) return;
    if (failed.text) this.history.splice(-2);  // its broken answer
    failed.item.remove();
    this.answer(question);
  }

  // Follows the text as long as the reader has not scrolled away from its end.
  keepInView() {
    const { scrollHeight, scrollTop, clientHeight } = this.scroller;
    const grown = this.lastHeight === undefined ? 0 : Math.max(0, scrollHeight - this.lastHeight);
    if (scrollHeight - scrollTop - clientHeight - grown < NEAR_THE_END_PX) this.scroller.scrollTop = scrollHeight;
    this.lastHeight = scrollHeight;
  }
}

// "the model 'x' does not exist" -> "The model 'x' does not exist."
function sentence(message) {
  const text = String(message);
  return text.charAt(0).toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".");
}
