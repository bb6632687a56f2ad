// What scrolls sideways can be reached, and so scrolled, with the keyboard alone.
function reachable() {
  for (const part of document.querySelectorAll("pre > code, .output, .md-typeset__scrollwrap, .highlight, .figure")) {
    if (part.scrollWidth > part.clientWidth) part.tabIndex = 0;
  }
}
addEventListener("load", reachable);
addEventListener("resize", reachable);
