// The values of a chart's controls, by name.
function choiceOf(form) {
  const choice = {};
  for (const element of form.elements) {
    if (element.name) choice[element.name] = element.type === "checkbox" ? element.checked : element.value;
  }
  return choice;
}

function formOf(id) {
  return document.getElementById(id)?.previousElementSibling;
}

function fillRows(select, rows, first) {
  if (first) select.append(new Option(first, "all"));
  for (const row of rows) select.append(new Option(row.full_name, data.rows.indexOf(row)));
}

// What tells most at first sight.
function setDefaults() {
  const { elements } = formOf("latency-chart");
  const has = (kind) => data.rows.filter((row) => loadOf(row, kind) !== null).length;
  for (const option of [...elements.load.options]) option.hidden = option.disabled = !has(option.value);
  const isRate = data.rows.every((row) => row.load.is_open);
  const isConcurrency = data.rows.every((row) => !row.load.is_open && row.load.concurrency);
  elements.load.value = isRate ? "request_rate" : isConcurrency ? "concurrency" : "reached";
  elements.figure.value = data.series.length > 1 ? "p50" : "all";
  const loads = data.rows.map((row) => loadOf(row, elements.load.value)).filter(Number.isFinite);
  elements.log_load.checked = loads.length > 0 && Math.min(...loads) > 0 && Math.max(...loads) / Math.min(...loads) > 16;
  const times = data.rows.flatMap((row) => [row.metrics.ttft?.p50?.[0], row.metrics.ttft?.p99?.[0]]).filter((time) => time > 0);
  elements.log_time.checked = times.length > 0 && Math.max(...times) / Math.min(...times) > 30;
  const hasSchedule = data.rows.some((row) => row.metrics.ttft_scheduled || row.metrics.e2e_scheduled);
  const throughputs = data.rows.map((row) => row.output_throughput?.[0]).filter((throughput) => throughput > 0);
  formOf("pareto-chart").elements.log_throughput.checked = throughputs.length > 0 && Math.max(...throughputs) / Math.min(...throughputs) > 30;
  elements.clock.closest("label").hidden = !hasSchedule;
  const detailed = data.rows.filter((row) => row.curves);
  if (!detailed.length) return;
  fillRows(formOf("curves-chart").elements.rows, detailed, "all");
  formOf("curves-chart").elements.log_time.checked = true;
  fillRows(formOf("timeline-chart").elements.row, detailed);
  const mostRequests = detailed.reduce((most, row) => (row.timeline.num_requests > most.timeline.num_requests ? row : most));
  formOf("timeline-chart").elements.row.value = data.rows.indexOf(mostRequests);
}

// id: (choice, form) => drawn
const charts = { "latency-chart": drawLatency, "pareto-chart": drawPareto, "curves-chart": drawCurves, "timeline-chart": drawTimeline };

function drawAll() {
  const drawn = [];
  for (const [id, drawChart] of Object.entries(charts)) {
    const form = formOf(id);
    if (form) drawn.push(drawChart(choiceOf(form), form));
  }
  return Promise.all(drawn);
}

async function start() {
  for (const table of document.querySelectorAll("table.sortable")) makeSortable(table);
  try {
    await loadPlotly();
    document.body.classList.add("has-charts");
    setDefaults();
    await drawAll();
  } catch (error) {
    const note = document.getElementById("no-charts");
    note.textContent = `There are no charts: ${error.message}. The tables hold the same figures.`;
    note.hidden = false;
    document.body.dataset.charts = "failed";
    return;
  }
  for (const [id, drawChart] of Object.entries(charts)) {
    const form = formOf(id);
    form?.addEventListener("change", () => drawChart(choiceOf(form), form));
    form?.addEventListener("submit", (event) => event.preventDefault());
  }
  for (const query of ["(prefers-color-scheme: dark)", "(max-width: 44rem)"]) {
    matchMedia(query).addEventListener("change", drawAll);
  }
  document.body.dataset.charts = "drawn";
}

start();
