// The chart library lies in the page as text: gzip, then base64. Inflated by the browser itself.
async function loadPlotly() {
  if (typeof DecompressionStream === "undefined") {
    throw new Error("this browser cannot inflate the chart library (DecompressionStream): Chrome 80, Firefox 113 or Safari 16.4 can");
  }
  const text = document.getElementById("plotly").textContent;
  const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  const script = document.createElement("script");
  script.textContent = await new Response(stream).text();
  document.head.append(script);
  if (!window.Plotly) throw new Error("the chart library did not start");
}

