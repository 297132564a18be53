// One row: its requests as bars from the schedule to the end, and what went on meanwhile.
const phases = [
  { name: "wait in the client", tint: "wait", from: "scheduled", to: "sent" },
  { name: "to the first token", tint: "prefill", from: "sent", to: "first_token" },
  { name: "to the end", tint: "decode", from: "first_token", to: "ended" },
];

function requestTraces(requests) {
  const order = requests.index.map((_, place) => place);
  const traces = phases.map((phase) => ({
    type: "bar", orientation: "h", name: phase.name, yaxis: "y",
    base: requests[phase.from], x: order.map((place) => Math.max(0, requests[phase.to][place] - requests[phase.from][place])), y: order,
    marker: { color: colour(phase.tint), line: { width: 0 } },
    customdata: order.map((place) => [requests.index[place], requests.outcome[place], requests.scheduled[place], requests.sent[place], requests.first_token[place], requests.ended[place]]),
    hovertemplate: "request %{customdata[0]}: %{customdata[1]}<br>scheduled %{customdata[2]:.3f} s<br>sent %{customdata[3]:.3f} s<br>first token %{customdata[4]:.3f} s<br>ended %{customdata[5]:.3f} s<extra></extra>",
  }));
  const marks = { failed: ["x", "invalid"], unfinished: ["triangle-right-open", "warn"] };
  for (const [outcome, [symbol, tint]] of Object.entries(marks)) {
    const places = order.filter((place) => requests.outcome[place] === outcome);
    if (places.length) traces.push({
      type: "scatter", mode: "markers", name: outcome === "failed" ? "failed" : "cut off", yaxis: "y", hoverinfo: "skip",
      x: places.map((place) => requests.ended[place]), y: places, marker: { symbol, color: colour(tint), size: 7 },
    });
  }
  return traces;
}

function lineOf(name, x, y, yaxis, tint, more) {
  return { type: "scatter", mode: "lines", name, x, y, yaxis, showlegend: false, line: { color: colour(tint), width: 1.8, ...more }, hovertemplate: `%{x:.3g} s: ${name} %{y:.4g}<extra></extra>` };
}

// The panels below the requests, those that have something to show.
function timelinePanels(timeline) {
  const { server, bucket_s: width } = timeline;
  const middles = timeline.num_in_flight.map((_, place) => (place + 0.5) * width);
  const has = (values) => values.some((value) => value !== null);
  const panels = [];
  const counts = [lineOf("in flight", middles, timeline.num_in_flight, "", "series-7", { shape: "hvh" })];
  if (has(server.num_running)) counts.push(lineOf("running", server.at, server.num_running, "", "decode", { shape: "hv" }));
  if (has(server.num_waiting)) counts.push(lineOf("waiting", server.at, server.num_waiting, "", "prefill", { shape: "hv" }));
  panels.push({ title: "requests", traces: counts });
  if (timeline.output_throughput.length) {
    panels.push({ title: "tokens/s", traces: [lineOf("tokens/s", middles, timeline.output_throughput, "", "series-5", { shape: "hvh" })] });
  }
  if (has(server.kv_usage)) {
    panels.push({ title: "KV use", format: ".0%", traces: [lineOf("KV use", server.at, server.kv_usage, "", "series-2", { shape: "hv" })] });
  }
  return panels;
}

function drawTimeline(choice, form) {
  const { timeline } = data.rows[Number(choice.row)];
  const { requests } = timeline;
  const shown = requests.index.length;
  form.elements.note.textContent = shown < timeline.num_requests
    ? `${shown} of ${timeline.num_requests} requests, evenly picked` : `${shown} requests`;
  const traces = requestTraces(requests);
  const panels = timelinePanels(timeline);
  const panelHeight = 105;
  const gap = 26;
  const barsHeight = Math.min(520, Math.max(160, shown * 9));
  const height = barsHeight + panels.length * (panelHeight + gap);
  const layout = layoutOf(height + 110, {
    margin: { l: 72, r: 24, t: 50, b: 60 },
    barmode: "overlay", bargap: shown > 150 ? 0 : 0.15,
    xaxis: axisOf("seconds since the first request", { anchor: `y${panels.length + 1}`, rangemode: "tozero" }),
    yaxis: axisOf("requests by sending", { domain: [1 - barsHeight / height, 1], range: [shown - 0.4, -0.6], showgrid: false, tickformat: "d", zeroline: false }),
  });
  layout.legend = { ...layout.legend, y: 1.01 };
  panels.forEach((panel, index) => {
    const top = 1 - (barsHeight + gap + index * (panelHeight + gap)) / height;
    layout["yaxis" + (index + 2)] = axisOf(panel.title, { domain: [Math.max(0, top - panelHeight / height), top], rangemode: "tozero", nticks: 4, tickformat: panel.format });
    for (const trace of panel.traces) traces.push({ ...trace, yaxis: "y" + (index + 2), showlegend: panel.traces.length > 1 });
  });
  return draw("timeline-chart", traces, layout);
}

