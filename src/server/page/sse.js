// Reads server-sent events (WHATWG HTML, 9.2.6) from a stream of bytes: yields the data of each event.
export async function* readEvents(stream) {
  const reader = stream.getReader();
  const decoder = new TextDecoder();
  let rest = "";  // an unfinished line
  let data = [];  // the lines of an unfinished event
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      rest += decoder.decode(value, { stream: true });
      // A CR at the very end may be half of a CR LF.
      const lines = rest.split(/\r\n|\n|\r(?!$)/);
      rest = lines.pop();
      for (const line of lines) {
        if (line.startsWith("data:")) {
          data.push(line.slice(line[5] === " " ? 6 : 5));
        } else if (line === "" && data.length > 0) {
          const event = data.join("\n");
          data = [];
          yield event;
        }
      }
    }
  } finally {
    reader.cancel().catch(() => {});  // where nobody reads on, the server need not write on
  }
}
