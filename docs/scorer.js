// Sphinx's weights of search results; pages of the internals come after those for readers.
var Scorer = {
  score: ([docname, , , , score]) => (docname.startsWith("_made/internals") ? score - 100 : score),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
