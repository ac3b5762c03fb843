// Package live looks at the live page of nfsrdmad with a browser: Chromium without a
// window. It knows the page's tables and the output of status --json, and nothing of
// how they are made.
package live
