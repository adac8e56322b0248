"""The console in a browser: who may come in, the page, one process for each page. Knows no store and no venue."""
